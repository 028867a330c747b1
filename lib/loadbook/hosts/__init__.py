"""Hosts: commands, files and jobs over SSH; locks, labs, replays, host facts and monitors.

The package is a layer over Paramiko; Fabric is used for the login only (`ssh`). Programs that run on hosts are the
scripts beside the modules: job.sh (jobs), interleave.pl (load generators in turn), cpu_samples.pl (CPU time of
services) and sampler.pl, all three with cpu_time.pl; sampler.sh, guard.sh and undo.sh.

- `host`: the protocol `Host` with its jobs, command results and HTTP responses
- `script`: shell scripts with their purpose, and their answer on a host without problems
- `shell`: the persistent /bin/sh of a host, quoting of arguments, and the PATH of programs
- `jobs`: the script job.sh, which runs detached jobs on a host and holds the lock that allows one run per machine
- `other_runs`: other runs of loadbook on a host's machine, found in its list of processes
- `inventory`: the file hosts.toml with aliases, roles, work folders and permissions
- `ssh_config_text`: an SSH configuration for Paramiko's reader: included files in their place, no comments
- `ssh_config`: the user's own SSH configuration, as ssh itself reads it
- `keys`: SSH endpoints of aliases, and files of trusted host keys
- `logins`: the keys of a login, files and the SSH agent's, in the order in which they are tried
- `ssh`: SSH connections with strict host keys, time limits and a watchdog for dead peers; trusting new host keys
- `http`: one HTTP or HTTPS request from a host's own network
- `session`: an open connection with a shell, SFTP and a dead-man switch (ends our jobs when the controller is gone)
- `remote`: a host over SSH, which implements `Host` and reconnects
- `dry`: a host that only records its calls, for dry runs
- `replay`: transcripts of the calls to hosts, and a host that answers from the transcripts of a recorded run
- `monitors`: facts about a host; the sampler of its metrics, and the host's own munin node or node_exporter
- `rollback`: changes of a host (kernel settings, network, CPU time), and their undoing
- `sshd`: one sshd process of the lab, and the lab's network on loopback addresses
- `netns`: the network namespaces of the lab
- `lab`: the lab (an sshd per host on this machine): its hosts and CPU masks, starting and stopping it
- `doctor`: checks of `loadbook doctor` on every host
"""
