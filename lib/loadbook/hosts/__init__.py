"""Hosts: commands, files and jobs over SSH; locks, labs, replays, host facts and monitors.

The package is a layer over Paramiko; Fabric serves for the login only (`ssh`). Programs that run on hosts are the
scripts beside the modules: job.sh (jobs), interleave.pl (load generators in turn), sampler.sh, guard.sh and undo.sh.

- `host`: the protocol `Host` with its jobs, command results and HTTP responses
- `shell`: the persistent /bin/sh of a host, quoting of arguments, and the PATH of programs
- `jobs`: job.sh: detached jobs, and the lock that allows one run per machine
- `inventory`: hosts.toml: aliases, roles, work folders, permissions
- `keys`: SSH endpoints of aliases, and files of trusted host keys
- `ssh`: SSH connections: strict host keys, bounded waits, a watchdog for dead peers; trust in keys that hosts offer
- `http`: one HTTP or HTTPS request from a host's own network
- `session`: an open connection with its shell, its files by SFTP and its dead-man switch
- `remote`: a host over SSH, which implements `Host` and reconnects
- `dry`: a host that only records its calls, for dry runs
- `replay`: transcripts of hosts, and a host that plays a recorded run back
- `monitors`: facts of a host; the sampler, and the host's own munin node or node_exporter
- `rollback`: changes of a host (kernel settings, network, CPU time), and their undoing
- `sshd`: one sshd of the lab, and the loopback network
- `netns`: the network namespaces of the lab
- `lab`: the lab: its hosts, CPU masks, start and end
- `doctor`: checks of `loadbook doctor` on every host
"""
