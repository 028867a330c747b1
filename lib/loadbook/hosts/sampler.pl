# sampler.pl INTERVAL_S COUNT [LABEL=PIDFILE ...]
#
# Prints what sampler.sh prints, with a tenth of its CPU time: one process reads files that stay open, and starts no other.
# Needs perl-base, cpu_time.pl and cgroups.sh, beside it, only. Samples begin INTERVAL_S apart; those that are missed are left out.

use strict;
use warnings;
use POSIX ();
require( ( $0 =~ m{^(.*/)}s ? $1 : './' ) . 'cpu_time.pl' );

my ( $interval_s, $count, @watches ) = @ARGV;
my @files = map { "/proc/$_" } qw(uptime stat meminfo net/dev loadavg net/sockstat);
$| = 1;

sub tree {    # a process and all below it, as sampler.sh finds them: children of main threads
    my ($pid) = @_;
    return ( $pid, map { tree($_) } split ' ', read_again("/proc/$pid/task/$pid/children") );
}

sub watched {    # label and process id of each watched process and all below it
    my @found;
    for my $watch (@watches) {
        my ( $label, $path ) = split /=/, $watch, 2;
        push @found, map { [ $label, $_ ] } tree($1) if first_line($path) =~ /^(\d+)(?:\s|$)/;
    }
    return @found;
}

my %quotas;     # text of /proc/PID/cgroup -> [folder, quota] of each group around the process; undef if not known

my ( %groups, %looks );    # of a process: text of /proc/PID/cgroup, and how often it was read

sub groups_of {    # a process may join its group soon after its start, and stays there
    my ($pid) = @_;
    $groups{$pid} = read_again("/proc/$pid/cgroup") if ++$looks{$pid} <= 4 || $looks{$pid} % 40 == 0;
    return $groups{$pid};
}

sub quotas_of {    # "LABEL:MILLI" of each quota above the processes of a label, and the files that count its throttling
    my ( %seen, @names, @files );
    for (@_) {
        my ( $label, $pid ) = @$_;
        my $groups = groups_of($pid);
        next if $seen{"$label $groups"}++ || !$groups && !-d "/proc/$pid";
        if ( !exists $quotas{$groups} ) {    # one process for the whole run, as a rule: all jobs are in the login's group
            my @lines = `/bin/sh cgroups.sh $pid 2>/dev/null`;
            next if $? && !-d "/proc/$pid";
            $quotas{$groups} = $? ? undef : [ map { [/^(.*) (\d+)$/] } @lines ];
        }
        push @names, "$label:?" if !$quotas{$groups};
        push @names, map { "$label:$_->[1]" } @{ $quotas{$groups} || [] };
        push @files, map { "$_->[0]/cpu.stat" } @{ $quotas{$groups} || [] };
    }
    return ( join( ' ', 'quotas', @names ) . "\n", @files );
}

# Connections of TCP, as the kernel lists them: sock_diag(7), struct inet_diag_req_v2 and inet_diag_msg. It finds listening
# sockets among all others for a fiftieth of what /proc/net/tcp costs.
my ( $af_netlink, $sock_diag, $by_family, $dump, $established, $listening ) = ( 16, 4, 20, 0x301, 1 << 1, 1 << 10 );
my $can_list = socket my $kernel, $af_netlink, 2, $sock_diag;

sub connections {    # of these states: [local address and port, peer, length of the accept queue, inode]; undef if not known
    my ($states) = @_;
    my @found;
    for my $family ( 2, 10 ) {
        my $request = pack 'CCCx L x48', $family, 6, 0, $states;
        send $kernel, pack( 'L S S L L', 16 + length $request, $by_family, $dump, 1, 0 ) . $request, 0 or return undef;
        my $is_done = 0;
        while ( !$is_done ) {
            defined recv $kernel, my $answer, 65536, 0 or return undef;
            return undef if length $answer < 16;
            while ( length $answer >= 16 ) {
                my ( $size, $type ) = unpack 'L S', $answer;
                return undef if $type == 2 || $size < 16;                        # NLMSG_ERROR
                if ( $type == 3 ) { $is_done = 1; last }                         # NLMSG_DONE
                my ( $port, $peer_port, $own, $peer, $waiting, $inode ) = unpack 'x4 n n a16 a16 x16 L x8 L', substr $answer, 16;
                my $address = unpack 'H*', $family == 2 ? substr $own, 0, 4 : $own;
                push @found, [ "$address:$port", "$peer$peer_port", $waiting, $inode ];
                $answer = substr $answer, ( $size + 3 ) & ~3;
            }
        }
    }
    return \@found;
}

my $look_again_s = 0.5;     # listing all connections costs milliseconds
my ( $looked, %since );   # when they were last listed; socket and peer -> since when the connection is known to wait

sub accept_queues {       # "ADDRESS:PORT=CONNECTIONS" of each accept queue that is not empty; ? if not known
    my $queues = $can_list && connections($listening);
    $can_list = $queues or return "accept_queues ?\n";    # and never asked again
    my @waiting = grep { $_->[2] } @$queues;
    my $line = join( ' ', 'accept_queues', map { "$_->[0]=$_->[2]" } @waiting ) . "\n";
    if ( !@waiting ) { %since = () }
    return $line if !@waiting || defined $looked && now() < $looked + $look_again_s;
    return $line . unaccepted( map { $_->[0] =~ /(:\d+)$/ } @waiting );
}

sub unaccepted {    # "ADDRESS:PORT=CONNECTIONS" of those that waited at the last look, too
    my %port = map { $_ => 1 } @_;
    my ( %still, %count );
    my $last = $looked // 0;
    $looked = now();
    # no process has accepted it yet: it has no inode
    for my $found ( grep { !$_->[3] && $_->[0] =~ /(:\d+)$/ && $port{$1} } @{ connections($established) || [] } ) {
        my $key = "$found->[0] $found->[1]";
        $still{$key} = $since{$key} // $looked;
        $count{ $found->[0] } += $still{$key} <= $last;
    }
    %since = %still;
    return join( ' ', 'unaccepted', map { "$_=$count{$_}" } sort keys %count ) . "\n";
}

printf "loadbook-sampler 1 %.6f %s %d %d %s\n", clock(0), ( split ' ', read_again('/proc/uptime') )[0],
  POSIX::sysconf( POSIX::_SC_CLK_TCK() ), POSIX::sysconf( POSIX::_SC_PAGESIZE() ), $interval_s;
my $next = now();
for my $n ( 0 .. $count - 1 ) {
    my @watched = watched();
    my ( $quotas, @throttling ) = quotas_of(@watched);
    my $sample = join( ' ', "@ $n", map { "$_->[0]:$_->[1]" } @watched ) . "\n";
    for my $file ( @files, map { ( "/proc/$_->[1]/stat", "/proc/$_->[1]/schedstat" ) } @watched ) {
        my $text = read_again($file);
        # without counts by interrupt, and sizes of memory but for Mem*
        $text =~ s/^(?:intr |[A-LN-Z].* kB$).*\n//mg;
        $sample .= $text;
    }
    $sample .= join '', accept_queues(), $quotas, map { read_again($_) } @throttling;
    print "$sample.\n";
    $next += $interval_s;
    $next = now() if $next < now() - $interval_s;
    while ( ( my $left = $next - now() ) > 0 ) { select undef, undef, undef, $left }
}
