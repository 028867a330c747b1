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

my ( %groups, %looks, %folders );    # process -> text of its cgroup file, and how often it was asked for; text -> folders
my %id;                              # folder of a group -> its number, as paths may name a user or a container

sub groups_of {                      # a process may join another group after its start
    my ($pid) = @_;
    my $text = $looks{$pid}++ % 4 ? $groups{$pid} : read_again("/proc/$pid/cgroup");
    return $groups{$pid} = $text || ( -d "/proc/$pid" ? '?' : '' );
}

sub folders_of {    # of the control groups around a process; undef if not known
    my ( $pid, $text ) = @_;
    if ( !exists $folders{$text} ) {    # one process for the whole run, as a rule: all jobs are in the login's group
        my @lines = `/bin/sh cgroups.sh $pid 2>/dev/null`;
        return [] if $? && !-d "/proc/$pid";
        $folders{$text} = $? ? undef : [ map { /^(.*) \w+$/ } @lines ];
    }
    return $folders{$text};
}

sub milli_of {    # the quota of a group in thousandths of a CPU, as cgroups.sh reads it; '' for none
    my ($folder) = @_;
    return '' if $folder =~ m{/loadbook-[^/]*-t\d[^/]*-a\d[^/]*$};    # a study's own (guard.sh)
    my ( $limit, $period ) = split ' ', read_again("$folder/cpu.max") || join ' ',
      map { read_again("$folder/cpu.cfs_$_") } qw(quota_us period_us);
    return ( $limit // '' ) =~ /^\d+$/ && $period ? int( $limit * 1000 / $period ) : '';
}

sub quotas_of {    # "quota LABEL ID MILLI PERIODS THROTTLED NS" of each quota above the processes of a label; ? if not known
    my ( %seen, $text );
    for (@_) {
        my ( $label, $pid ) = @$_;
        my $groups = groups_of($pid);
        next if !$groups || $seen{"$label $groups"}++;
        my $folders = $groups eq '?' ? undef : folders_of( $pid, $groups );
        if ( !$folders ) { $text .= "quota $label ?\n"; next }
        for my $folder ( grep { !$seen{"$label $_"}++ } @$folders ) {
            my $milli = milli_of($folder);
            next if $milli eq '';
            my %count = read_again("$folder/cpu.stat") =~ /^(\w+) (\d+)$/mg;
            my $ns = $count{throttled_time} // ( $count{throttled_usec} // next ) . '000';
            $id{$folder} //= keys(%id) + 1;
            $text .= "quota $label $id{$folder} $milli $count{nr_periods} $count{nr_throttled} $ns\n";
        }
    }
    return $text // '';
}

# Connections of TCP, as the kernel lists them: sock_diag(7), struct inet_diag_req_v2 and inet_diag_msg. It finds listening
# sockets among all others for a fiftieth of what /proc/net/tcp costs.
my ( $af_netlink, $sock_diag, $by_family, $dump, $established, $listening ) = ( 16, 4, 20, 0x301, 1 << 1, 1 << 10 );
my $can_list = socket my $kernel, $af_netlink, 2, $sock_diag;

sub connections {    # of these states: [local address and port, peer, length of the accept queue, inode]; undef if not known
    my ( $states, @families ) = @_;
    my @found;
    for my $family (@families) {
        my $request = pack 'CCCx L x48', $family, 6, 0, $states;
        send $kernel, pack( 'L S S L L', 16 + length $request, $by_family, $dump, 1, 0 ) . $request, 0 or return undef;
        my $is_done = 0;
        while ( !$is_done ) {
            defined recv $kernel, my $answer, 65536, 0 or return undef;
            return undef if length $answer < 16;
            while ( length $answer >= 16 ) {
                my ( $size, $type ) = unpack 'L S', $answer;
                # NLMSG_ERROR; without IPv6, IPv4 is enough
                return $family == 2 ? undef : \@found if $type == 2 || $size < 16;
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

# listing all connections costs milliseconds, with thousands of them in TIME-WAIT tens of these: at most 0.5 % of a CPU
my $look_again_s = 0.5;
my ( $looked, %since );    # when they were last listed; socket and peer -> since when the connection is known to wait

sub accept_queues {       # "ADDRESS:PORT=CONNECTIONS" of each accept queue that is not empty; ? if not known
    my $queues = $can_list && connections( $listening, 2, 10 );
    $can_list = $queues or return "accept_queues ?\n";    # and never asked again
    my @waiting = grep { $_->[2] } @$queues;
    my $line = join( ' ', 'accept_queues', map { "$_->[0]=$_->[2]" } @waiting ) . "\n";
    if ( !@waiting ) { %since = () }
    return $line if !@waiting || defined $looked && now() < $looked + $look_again_s;
    return $line . unaccepted( map { $_->[0] } @waiting );
}

sub cpu_s { return clock(2) }    # CPU seconds of this process

sub unaccepted {    # "ADDRESS:PORT=CONNECTIONS/SECONDS": those that waited at the last look, too, and how long half of them did
    my %port = map { /(:\d+)$/ => 1 } @_;
    my %family = map { ( /^[0-9a-f]{8}:/ ? 2 : 10 ) => 1 } @_;
    my ( %still, %waits );
    my $last = $looked // 0;
    my $used = cpu_s();
    $looked = now();
    my $all = connections( $established, keys %family ) || [];
    $look_again_s = 200 * ( cpu_s() - $used );
    $look_again_s = 0.5 if $look_again_s < 0.5;
    # no process has accepted it yet: it has no inode
    for my $found ( grep { !$_->[3] && $_->[0] =~ /(:\d+)$/ && $port{$1} } @$all ) {
        my $key = "$found->[0] $found->[1]";
        $still{$key} = $since{$key} // $looked;
        push @{ $waits{ $found->[0] } }, $looked - $still{$key} if $still{$key} <= $last;
    }
    %since = %still;
    return join( ' ', 'unaccepted', map { waiting( $_, @{ $waits{$_} } ) } sort keys %waits ) . "\n";
}

sub waiting {    # one of them
    my ( $socket, @waits ) = @_;
    my @sorted = sort { $a <=> $b } @waits;
    return sprintf '%s=%d/%.1f', $socket, scalar @sorted, $sorted[ @sorted / 2 ];
}

printf "loadbook-sampler 1 %.6f %s %d %d %s\n", clock(0), ( split ' ', read_again('/proc/uptime') )[0],
  POSIX::sysconf( POSIX::_SC_CLK_TCK() ), POSIX::sysconf( POSIX::_SC_PAGESIZE() ), $interval_s;
my $next = now();
for my $n ( 0 .. $count - 1 ) {
    my @watched = watched();
    my $sample = join( ' ', "@ $n", map { "$_->[0]:$_->[1]" } @watched ) . "\n";
    for my $file ( @files, map { ( "/proc/$_->[1]/stat", "/proc/$_->[1]/schedstat" ) } @watched ) {
        my $text = read_again($file);
        # without counts by interrupt, and sizes of memory but for Mem*
        $text =~ s/^(?:intr |[A-LN-Z].* kB$).*\n//mg;
        $sample .= $text;
    }
    $sample .= accept_queues() . quotas_of(@watched);
    print "$sample.\n";
    $next += $interval_s;
    $next += $interval_s while $next < now();
    while ( ( my $left = $next - now() ) > 0 ) { select undef, undef, undef, $left }
}
