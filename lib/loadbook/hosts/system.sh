# system.sh: the host's own server with files of ours in its tree of configuration, and as it was before
#
#   stage DIR            check a copy of the whole tree with the new files in it; nothing is replaced
#   system DIR           as the step of a job, in its folder: keep what there is, replace, reload; put back at the end
#   settle DIR JOB       wait until the processes from before are gone, else start the server anew; says which
#   server DIR           print the ids of the server's processes, the main one first
#
# DIR holds `plan`, which sets tree, process, pid_file, unit, reload, stop, start, check, check_staged and limit_s, and
# the new files below `new`. What was there is kept in <state>/kept/JOB@PID: `files` has a line for each (sha256
# before, sha256 of ours, path), `old` and `new` the files, `served` where the server listened; `replaced` is there
# from just before the first replacement on.
take_s=10 # a reload is done by then, or has failed

find_main() { # sets main: the process that the pid file names, if it is the server
    main= comm=
    { read -r main <"$pid_file"; } 2>/dev/null
    case $main in '' | *[!0-9]*) main= && return ;; esac
    { read -r comm <"/proc/$main/comm"; } 2>/dev/null
    find_start_ticks "$main"
    [ "$comm" = "$process" ] && [ -n "$start_ticks" ] || main=
}

workers() { # prints the children of the main process
    child_pids=
    { read -r child_pids <"/proc/$main/task/$main/children"; } 2>/dev/null
    for child_pid in $child_pids; do
        find_start_ticks "$child_pid"
        [ -z "$start_ticks" ] || printf '%s ' "$child_pid"
    done
}

server() { # DIR
    . "$1/plan"
    find_main
    [ -z "$main" ] || echo "$main $(workers)"
}

any_of() { # WORDS OF: is one of WORDS among OF?
    for word in $1; do
        case " $2 " in *" $word "*) return 0 ;; esac
    done
    return 1
}

listening() { # prints where the server listens, as /proc/net/tcp has it
    inodes=" $(for pid in $main $(workers); do ls -l "/proc/$pid/fd"; done 2>/dev/null |
        sed -n 's/.*socket:\[\([0-9]*\)\]$/\1/p' | tr '\n' ' ')"
    cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | while read -r _ local _ state _ _ _ _ _ inode _; do
        case $state,$inodes in 0A,*" $inode "*) echo "$local" ;; esac
    done | sort -u
}

by_unit() { # is it systemd that runs the server, or would start it?
    [ -n "$unit" ] && [ -d /run/systemd/system ] && timeout 10 systemctl cat "$unit" >/dev/null 2>&1 &&
        { [ -z "$main" ] || timeout 10 systemctl is-active -q "$unit"; }
}

reload_it() {
    if [ "$reload" = restart ]; then
        restart_it
    elif by_unit; then timeout 60 systemctl reload "$unit"; else kill -s "$reload" "$main"; fi
}

start_it() { # as if we had never been there: with the host's own CPUs, umask and folder
    if by_unit; then
        timeout 60 systemctl start "$unit"
    else
        pin=
        ! command -v taskset >/dev/null || pin="taskset -c ${cpus:-$(cat /sys/devices/system/cpu/online)}"
        # into a file: what a server keeps open of a pipe would be waited for
        # shellcheck disable=SC2086
        (cd / && umask "$mask" && exec 9>&- timeout 20 setsid $pin /bin/sh -c "exec $start") \
            >"$state/.output" 2>&1 </dev/null || { cat "$state/.output" && return 1; }
    fi
}

stop_it() {
    if by_unit; then
        timeout 60 systemctl stop "$unit"
    else
        kill -s "$stop" "$main" && await_gone "$main" || kill -s KILL "$main"
    fi
}

await_gone() { # PID
    tries=$((take_s * 20))
    find_start_ticks "$1"
    while [ -n "$start_ticks" ]; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || return 1
        pause 0.05
        find_start_ticks "$1"
    done
}

restart_it() {
    cpus=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$main/status")
    if by_unit; then
        timeout 60 systemctl restart "$unit"
    else
        stop_it
        start_it
    fi
}

await_others() { # PIDS MAIN: until other processes serve than these; were there none, it is enough that it runs
    tries=$((take_s * 20))
    while [ "$tries" -gt 0 ]; do
        find_main
        now=$(workers)
        if [ -n "$main" ]; then
            [ "$main" = "$2" ] && [ -n "$1" ] || return 0
            for child_pid in $now; do any_of "$child_pid" "$1" || return 0; done
        fi
        tries=$((tries - 1))
        pause 0.05
    done
    return 1
}

await_drained() { # PIDS: until none of them serves
    tries=$((limit_s * 20))
    while any_of "$1" "$(workers)"; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || return 1
        pause 0.05
    done
}

sum() { # FILE: prints what tells its content from every other, `none` where there is none
    if [ -L "$1" ]; then
        echo "link-$(readlink "$1" | sha256sum | cut -c 1-64)"
    elif [ -e "$1" ]; then
        sha256sum <"$1" | cut -c 1-64
    else
        echo none
    fi
}

new_files() { # DIR
    (cd "$1/new" && find . -type f | sed 's|^\./||' | sort)
}

stage() { # DIR
    . "$1/plan"
    [ -d "$tree" ] || refuse "there is no $tree on this host"
    rm -rf "$1/stage"
    { mkdir -m 700 "$1/stage" && cp -a "$tree/." "$1/stage/"; } || refuse "cannot copy $tree"
    new_files "$1" | while read -r path; do
        rm -f "$1/stage/$path"
        mkdir -p "$(dirname "$1/stage/$path")" && cp "$1/new/$path" "$1/stage/$path" || exit 1
    done || refuse "cannot put new files into a copy of $tree"
    # where it can be, the copy lies over the tree: what names files by their whole path is checked, too
    rc=0
    if unshare -m mount --bind "$1/stage" "$tree" 2>/dev/null; then
        how="in the place of $tree"
        unshare -m /bin/sh -c 'mount --bind "$1" "$2" && exec timeout 20 /bin/sh -c "exec $3"' \
            sh "$1/stage" "$tree" "$check" || rc=$?
    else
        how="in a copy"
        timeout 20 /bin/sh -c "exec $check_staged" || rc=$?
    fi
    rm -rf "$1/stage"
    [ "$rc" != 0 ] || echo "checked $how"
    exit "$rc"
}

system() { # DIR
    dir=$1
    job=${PWD##*/}
    . "$dir/plan"
    trap 'ending=1' TERM INT HUP
    locked deploy
    await_end
}

deploy() {
    restore_dead
    holder=$(grep -l "^tree $tree " "$undo"/* 2>/dev/null | sed -n 1p)
    [ -z "$holder" ] || refuse "$tree is changed already, by ${holder##*/} (if nothing runs there: loadbook restore)"
    begin_entry
    find_main
    old=$(workers) old_main=$main
    kept=$state/kept/$job@$$
    record_original "tree $tree $kept"
    keep_files || refuse "cannot keep what is in $tree in $kept"
    : >"$kept/replaced" && durable "$kept" || refuse "cannot write to $kept"
    new_files "$dir" | while read -r path; do
        replace "$tree/$path" "$dir/new/$path" || exit 1
    done || refuse "cannot write to $tree"
    echo "$old" >old
    if [ -n "$main" ]; then output=$(reload_it 2>&1); else output=$(start_it 2>&1); fi ||
        refuse "the files pass their check, but $process takes them not: $(plain "$output")"
    [ -n "$old_main" ] || await_others "" "" || refuse "$process was started and does not run"
    find_main
    echo "$main" >main
}

keep_files() {
    mkdir -p "$kept/old" "$kept/new" && cp "$dir/plan" "$kept/plan" && cp -a "$dir/new/." "$kept/new/" &&
        { [ -z "$main" ] || listening >"$kept/served"; } && : >"$kept/folders" || return 1
    new_files "$dir" | while read -r path; do
        case $path in
        */*)
            mkdir -p "$kept/old/${path%/*}" && new_folders "${path%/*}" || exit 1
            ;;
        esac
        [ ! -d "$tree/$path" ] || exit 1
        before=$(sum "$tree/$path")
        [ "$before" = none ] || cp -a "$tree/$path" "$kept/old/$path" || exit 1
        [ "$before" = "$(sum "$kept/old/$path")" ] || exit 1
        echo "$before $(sum "$dir/new/$path") $path"
    done >"$kept/files" && find "$kept" | while read -r path; do durable "$path"; done
}

new_folders() { # PATH below the tree: the folders that are made for it, the deepest first
    folder=$1
    while [ ! -d "$tree/$folder" ]; do
        echo "$folder" >>"$kept/folders"
        case $folder in */*) folder=${folder%/*} ;; *) break ;; esac
    done
}

replace() { # FILE BY: whole or not at all; owner and mode stay
    folder=${1%/*}
    (umask 022 && mkdir -p "$folder") || return 1
    part=$folder/.loadbook-part
    if [ -e "$1" ]; then cp -aL "$1" "$part" && cat "$2" >"$part"; else cp "$2" "$part" && chmod 644 "$part"; fi &&
        durable "$part" && mv -f "$part" "$1" && durable "$folder"
}

settle() { # DIR JOB
    . "$1/plan"
    job= dir=$1 folder=jobs/$2
    old=$(cat "$folder/old")
    find_main
    await_others "$old" "$main"
    find_main
    [ -n "$main" ] || { echo "gone" && return; }
    now=$(workers)
    if [ -z "$old" ] || await_drained "$old"; then
        echo "fresh"
    elif [ "$(plain "$now")" = "$(plain "$old")" ]; then
        echo "unchanged"
    else
        locked restart_it >&2
        await_others "$old" "$main" && echo "restarted $(plain "$old")" || echo "gone"
    fi
    find_main
    echo "$main" >"$folder/main"
}

put_tree_back() { # TREE KEPT
    tree=$1 kept=$2
    # where nothing was replaced, or somebody has settled it, there is nothing to do
    if [ -e "$kept/replaced" ]; then
        . "$kept/plan"
        if [ -e "$kept/failed" ] && [ -z "$again" ]; then cat "$kept/failed" && return 1; fi
        untouched && put_files_back && rerun || return 1
        echo "$tree ($process runs with its own files again)"
    fi
    rm -rf "$kept"
}

untouched() { # are the files ours, or those of before? another's are kept, and shown
    theirs=
    while read -r before ours path; do
        case $(sum "$tree/$path") in
        "$before" | "$ours") ;;
        *)
            theirs="$theirs $tree/$path"
            mkdir -p "$kept/theirs/$path" && diff -u -N "$kept/new/$path" "$tree/$path" >"$kept/theirs/$path/diff"
            ;;
        esac
    done <"$kept/files"
    [ -n "$theirs" ] || return 0
    echo "edited by somebody else meanwhile, and left alone:$theirs. What they changed: $(find "$kept/theirs" -name diff |
        tr '\n' ' ')- what was there before: $kept/old - as soon as the tree is right: rm -r $kept, then loadbook restore"
    return 1
}

put_files_back() {
    while read -r before ours path; do
        now=$(sum "$tree/$path") folder=$(dirname "$tree/$path")
        rm -f "$folder/.loadbook-part"
        if [ "$before" = none ]; then
            rm -f "$tree/$path" && { [ ! -d "$folder" ] || durable "$folder"; }
        elif [ "$now" != "$before" ]; then
            cp -a "$kept/old/$path" "$folder/.loadbook-part" && durable "$folder/.loadbook-part" &&
                mv -f "$folder/.loadbook-part" "$tree/$path" && durable "$folder"
        fi || { failed "$tree/$path cannot be put back from $kept/old/$path" && return 1; }
    done <"$kept/files"
    while read -r folder; do
        rmdir "$tree/$folder" 2>/dev/null
    done <"$kept/folders"
    return 0
}

rerun() { # with its own files; one that did not run before is stopped
    find_main
    if [ ! -e "$kept/served" ]; then
        [ -z "$main" ] || stop_it || { failed "cannot be stopped, as it was before" && return 1; }
        return 0
    fi
    output=$(timeout 20 /bin/sh -c "exec $check" 2>&1) ||
        { failed "its own files are back, and do not pass its check: $output" && return 1; }
    old=$(workers) old_main=$main
    if [ -n "$main" ]; then output=$(reload_it 2>&1); else output=$(start_it 2>&1); fi ||
        { failed "does not take its own files again: $output" && return 1; }
    await_others "$old" "$old_main" || { failed "its own files are back, and the processes of before go on" && return 1; }
    if [ -n "$old" ] && ! await_drained "$old"; then restart_it && await_others "$old" "$main"; fi
    tries=$((take_s * 20))
    while find_main && listening >"$kept/serves" && grep -vxFf "$kept/serves" "$kept/served" >/dev/null; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || { failed "listens no more on $(plain "$(grep -vxFf "$kept/serves" "$kept/served")")" && return 1; }
        pause 0.05
    done
    return 0
}

failed() { # WHY: printed now and every time, and tried again by hand only
    by=$start
    [ -z "$unit" ] || [ ! -d /run/systemd/system ] || by="systemctl restart $unit"
    echo "$process DOES NOT COME BACK ($tree): $(plain "$1"). See to it: $check; $by; then: loadbook restore." \
        "Its files as they were: $kept/old" >"$kept/failed"
    cat "$kept/failed"
}
