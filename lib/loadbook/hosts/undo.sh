: loadbook changes this host for a while, and puts it back
# undo.sh VERB ARG...   POSIX sh (dash, bash, busybox); guard.sh and system.sh follow in the same file, then "$@"
#
#   restore [NAME]   put back what was left by those who are gone (only by job NAME); a line for everything:
#                    "done ..." or "left ...", nothing for what went by itself; what failed before is only told again
#   again [NAME]     the same, and what failed before is tried again
#
# What is changed is written down first, in a file of <state>/undo. Its first line says who holds it (job, pid, start of
# the process, boot, network namespace); every other is a thing to put back, the newest first. A line goes when that is
# done, and stays while it cannot be. <state> must outlive a reboot, since the files of a system do.
export LC_ALL=C TZ=UTC
mask=$(umask)
umask 077
state=/var/lib/loadbook
[ "$(id -u)" = 0 ] || state=${XDG_STATE_HOME:-$HOME/.local/state}/loadbook
state=${LOADBOOK_STATE:-$state}
undo=$state/undo
entry= job= ending= again=

write_state() { # WORDS: the file `state`, for whoever waits for it, whole or not at all
    echo "$*" >state.part && mv state.part state
}

refuse() { # puts back what was changed until now
    [ -z "$entry" ] || restore_entry "$entry" >>restored
    [ -z "$job" ] || write_state "refused $*"
    echo "$*" >&2
    exit 1
}

plain() { # words with one blank between them, as values are compared
    set -f
    # shellcheck disable=SC2086
    set -- $1
    set +f
    echo "$*"
}

pause() { # SECONDS: a sleep that knows whole seconds only takes one
    sleep "$1" 2>/dev/null || sleep 1
}

durable() { # FILE or folder: on the disk, not only on its way there
    sync "$1" 2>/dev/null || sync
}

# sets start_ticks, the start of process $1 in ticks since boot; "" when it is gone or only waits for its parent
find_start_ticks() {
    start_ticks=
    { read -r line <"/proc/$1/stat"; } 2>/dev/null || return 0
    line=${line##*) }
    # shellcheck disable=SC2086
    set -- $line
    case $1 in Z | X) ;; *) start_ticks=${20} ;; esac
}

find_boot_and_network() { # sets boot and network: those that a change belongs to
    read -r boot </proc/sys/kernel/random/boot_id
    network=$(readlink /proc/self/ns/net)
}

locked() { # COMMAND...: nobody else changes or puts back anything meanwhile
    command -v flock >/dev/null || refuse "flock is not there (apt install util-linux)"
    { mkdir -p "$undo" && chmod 700 "$state" && : >>"$state/lock"; } 2>/dev/null ||
        refuse "cannot write to $state: set state = \"/some/folder\" for this host in the hosts file"
    exec 9>>"$state/lock"
    tries=600
    until flock -n 9; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || refuse "$state/lock was held by somebody else for a minute"
        pause 0.1
    done
    "$@"
    exec 9>&-
}

begin_entry() { # sets entry: the file of this job's changes
    find_boot_and_network
    find_start_ticks $$
    entry=$undo/$job@$$
    echo "$job $$ $start_ticks $boot $network" >"$undo/.part" && mv "$undo/.part" "$entry" ||
        refuse "cannot write to $undo"
}

record_original() { # WHAT WHICH VALUE: what is there, before it is changed
    {
        head -n 1 "$entry" && echo "$*" && sed 1d "$entry"
    } >"$undo/.part" && durable "$undo/.part" && mv "$undo/.part" "$entry" && durable "$undo" ||
        refuse "cannot write to $undo"
}

recorded_by_others() { # WHAT WHICH: prints the lines of others who changed the same thing
    for file in "$undo"/*; do
        [ "$file" = "$entry" ] || grep -F "$1 $2 " "$file"
    done 2>/dev/null
}

await_end() { # in a job whose changes are made: until it is to end; what puts things back outlives the job's group
    write_state "done"
    while [ -z "$ending" ]; do
        sleep 1000 &
        wait $!
    done
    kill $! 2>/dev/null
    trap '' TERM INT HUP
    setsid /bin/sh "$0" end "$entry" </dev/null >restored 2>&1 &
    wait $!
}

end() { # ENTRY
    entry=$1
    locked restore_entry "$entry"
}

restore() {
    [ ! -d "$undo" ] || locked restore_dead "$1"
}

again() {
    again=1
    restore "$1"
}

restore_dead() { # [NAME]
    find_boot_and_network
    rm -f "$undo/.part" "$undo/.left" "$undo/.lines"
    for file in "$undo"/*; do
        [ -e "$file" ] || continue
        read -r name pid entry_start_ticks entry_boot entry_network <"$file"
        [ -z "$1" ] || [ "$1" = "$name" ] || continue
        find_start_ticks "$pid"
        if [ "$entry_boot" != "$boot" ] || [ "$start_ticks" != "$entry_start_ticks" ]; then
            restore_entry "$file"
        fi
    done
}

restore_entry() { # FILE: put back what it tells of; what cannot be put back stays in it
    [ -e "$1" ] || return 0
    find_boot_and_network
    entry=$1
    read -r name pid entry_start_ticks entry_boot entry_network <"$entry"
    head -n 1 "$entry" >"$undo/.left"
    sed 1d "$entry" >"$undo/.lines"
    while read -r what which value; do
        if output=$(put_back "$what" "$which" "$value" 2>&1 </dev/null); then
            [ -z "$output" ] || echo "done $(plain "$output")"
        else
            echo "left $(plain "$output") (changed by $name)"
            echo "$what $which $value" >>"$undo/.left"
        fi
    done <"$undo/.lines"
    if [ "$(sed -n '$=' "$undo/.left")" = 1 ]; then rm -f "$entry" "$undo/.left"; else mv "$undo/.left" "$entry"; fi
    rm -f "$undo/.lines"
    entry=
}

put_back() { # WHAT WHICH VALUE: prints what it did, or why it could not
    if [ "$1" = tree ]; then
        put_tree_back "$2" "$3"
        return
    fi
    # the kernel forgot the rest when it was started anew
    [ "$entry_boot" = "$boot" ] || return 0
    case $1,$2 in
    qdisc,* | address,* | table,* | sysctl,/proc/sys/net/*)
        [ "$entry_network" = "$network" ] ||
            { echo "$1 $2 is one of another network namespace: $entry_network" && return 1; }
        ;;
    esac
    "put_$1_back" "$2" "$3"
}
