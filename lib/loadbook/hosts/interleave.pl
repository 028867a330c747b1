#!/usr/bin/perl
# Let the load generators of several arms take turns: one runs, the others are stopped (SIGSTOP). Needs perl-base and
# cpu_time.pl, beside it, only.
#
#   interleave.pl SCHEDULE       run in the folder of a job, as the leader of one of its steps
#
# SCHEDULE has a line each:
#   arm K FOLDER                arm K is started in FOLDER by `sh cmd`; files stdout, stderr and pid are made there
#   slice S, gap S, first S     seconds of a slice, of the pause before one, and of an arm's first slice, in which it starts
#   end S                       seconds from its start after which a generator ends by itself; nothing starts a slice later
#   tail S                      seconds that a generator may still take when its time is over; then it is killed
#   at EPOCH                    with several drivers: the instant, by this host's clock, at which the first slice begins;
#                               instants of all others follow from it, and a slice that comes too late is left out
#   last S                      then also: seconds of a slice in which a generator whose time is over ends, at least `first`
#   order K K K ...             a round; the last ones are repeated when there are too few
#   service K BOOT NS PID       a service of arm K: the leader of its session or process group; BOOT (boot id) and NS
#                               (namespace of process ids) are those of its machine
#
# Prints (seconds of the monotonic clock; CPU times in ns; - for a time that is not known, as of services elsewhere)
#   clock MONOTONIC REALTIME, arm K PID
#   slice K START END BYTES GENERATOR SERVICE OUTSIDE
#                               BYTES that this host received in the slice and the gap after it; CPU time of the generator
#                               in the slice, of the arm's services in the slice and the gap, and of the arm's services
#                               between the gap of its previous slice and the start of this one
#   piece K START END BYTES GENERATOR SERVICE
#                               before a long slice: each of its pieces of some 50 ms but the last
#   waited K NS                 before a further slice of an arm: time for which its processes could run in its previous
#                               slice and got no CPU
#   rest K OUTSIDE              CPU time of an arm's services after its last slice
#   exit K RC CPU_S             of a generator (RC is that of a shell: 128 + signal); hung K if it did not end by itself
# Generators stay in the process group of the job, so that whatever ends the job ends them; KILL reaches stopped processes.
# TERM, INT and HUP continue and end all of them first.

use strict;
use warnings;
use POSIX ();
require( ( $0 =~ m{^(.*/)}s ? $1 : './' ) . 'cpu_time.pl' );

my ( %settings, %folder, @arms, @rounds, %leaders );
open my $schedule, '<', $ARGV[0] or die "interleave.pl: $ARGV[0]: $!\n";
while (<$schedule>) {
    my ( $key, @words ) = split;
    if    ( $key eq 'arm' )   { push @arms, $words[0]; $folder{ $words[0] } = $words[1] }
    elsif ( $key eq 'order' ) { push @rounds, [@words] }
    elsif ( $key eq 'service' ) { push @{ $leaders{ $words[0] } }, [ @words[ 1 .. 3 ] ] }
    else                      { $settings{$key} = $words[0] }
}
close $schedule;

my ( %pid, %family, %started, %ended, $ending );    # of arms; %family: processes of its generator
$SIG{$_} = sub { $ending = 1 }
  for qw(TERM INT HUP);
$SIG{CHLD} = 'DEFAULT';
$| = 0;
printf "clock %.6f %.6f\n", now(), clock(0);

# with `at`: the instant at which the next slice begins, by the monotonic clock
my $begin = defined $settings{at} ? $settings{at} - clock(0) + now() : undef;
my $next = $begin;

sub take_slot {    # wait for the next slice, of $length_s; returns its end, or undef if it is over already
    my ($length_s) = @_;
    return now() + $length_s if !defined $next;
    my $start = $next;
    $next += $length_s + $settings{gap};
    return undef if now() > $start + $length_s / 2;
    sleep_until($start);
    return $start + $length_s;
}

sub sleep_until {    # a signal that ends the job ends the wait
    my ($until) = @_;
    while ( !$ending && ( my $left = $until - now() ) > 0 ) { select undef, undef, undef, $left }
}

sub received {    # bytes received by all interfaces of this host
    my $sum = 0;
    $sum += $_ for read_again('/proc/net/dev') =~ /:\s*(\d+)/g;
    return $sum;
}

# arm -> processes of its services, if all of them are on this machine
my %members;

sub find_members {
    my $boot = first_line('/proc/sys/kernel/random/boot_id');
    chomp $boot;
    my $space = readlink '/proc/self/ns/pid';
    my @here;
    for my $k ( keys %leaders ) {
        next if grep { $_->[0] ne $boot || $_->[1] ne ( $space // '' ) } @{ $leaders{$k} };
        $members{$k} = [];
        push @here, $k;
    }
    return if !@here;
    my %processes = processes_of( map { $_->[2] } map { @{ $leaders{$_} } } @here );
    for my $k (@here) {
        $members{$k} = [ map { @{ $processes{ $_->[2] } } } @{ $leaders{$k} } ];
    }
}

sub find_new_members {    # processes that an arm's services started since then
    my ($k) = @_;
    $members{$k} = [ family( @{ $members{$k} } ) ] if $members{$k};
}

sub services_times {    # as cpu_times, of an arm's services; (undef, 0) if not known
    my ($k) = @_;
    return $members{$k} ? cpu_times( @{ $members{$k} } ) : ( undef, 0 );
}

sub services_ns { return ( services_times(@_) )[0] }

sub max { return $_[0] > $_[1] ? $_[0] : $_[1] }

sub minus { my ( $after, $before ) = @_; return defined $after && defined $before ? $after - $before : '-' }

my $piece_s = 0.05;

# what was read when the slice under way began; by arm: CPU time of its services when its last gap was over, and time
# waited for a CPU when its last slice began
my ( %begun, %left_at, %waited_at );

sub begin_slice {
    my ($k) = @_;
    my ( $generator, $generator_waited ) = cpu_times( @{ $family{$k} // [] } );
    my ( $services, $services_waited ) = services_times($k);
    my $waited = $generator_waited + $services_waited;    # nothing is added while the generator is stopped
    printf "waited %s %s\n", $k, $waited - $waited_at{$k} if exists $waited_at{$k};
    $waited_at{$k} = $waited;
    %begun = (
        outside   => minus( $services, $left_at{$k} ),
        services  => $services,
        bytes     => received(),
        generator => $generator,
    );
    return $begun{start} = now();
}

sub end_slice {    # the gap after a slice belongs to it
    my ($k) = @_;
    my $end = now();
    my $generator = exists $ended{$k} ? undef : cpu_ns( @{ $family{$k} } );
    sleep_until( $end + $settings{gap} );
    my $bytes = received();
    find_new_members($k);
    $left_at{$k} = services_ns($k);
    printf "slice %s %.6f %.6f %s %s %s %s\n", $k, $begun{start}, $end, $bytes - $begun{bytes},
      minus( $generator, $begun{generator} ), minus( $left_at{$k}, $begun{services} ), $begun{outside};
}

sub reap {    # note the end of a generator; with $wait_s wait for it so long
    my ( $k, $wait_s ) = @_;
    return 1 if exists $ended{$k};
    my $until = now() + $wait_s;
    my ( undef, undef, @before ) = times;
    while (1) {
        my $pid = waitpid $pid{$k}, POSIX::WNOHANG();
        if ( $pid == $pid{$k} || $pid == -1 ) {
            my $status = $pid == -1 ? 0 : $?;
            my ( undef, undef, @after ) = times;
            $ended{$k} = now();
            printf "exit %s %d %.2f\n", $k, $status & 127 ? 128 + ( $status & 127 ) : $status >> 8,
              $after[0] + $after[1] - $before[0] - $before[1];
            return 1;
        }
        return 0 if now() >= $until;
        select undef, undef, undef, 0.0005;
    }
}

sub run_slice {    # let arm $k run for $length_s, or if $whole until it ends within that time
    my ( $k, $length_s, $whole ) = @_;
    my $end = take_slot($length_s);
    return if $ending || !defined $end;
    my $start = begin_slice($k);
    $length_s = $end - $start if defined $next;
    kill 'CONT', @{ $family{$k} };
    if ($whole) { reap( $k, $length_s ) }
    else {
        my $pieces = POSIX::floor( $length_s / $piece_s ) || 1;
        my @before = ( $start, @begun{qw(bytes generator services)} );
        for my $piece ( 1 .. $pieces - 1 ) {
            sleep_until( $start + $piece * $length_s / $pieces );
            my @now = ( now(), received(), cpu_ns( @{ $family{$k} } ), services_ns($k) );
            printf "piece %s %.6f %.6f %s %s %s\n", $k, $before[0], $now[0], map { minus( $now[$_], $before[$_] ) } 1 .. 3;
            @before = @now;
        }
        sleep_until( $start + $length_s );
    }
    kill 'STOP', @{ $family{$k} } if !$ending && !reap( $k, 0 );
    end_slice($k);
}

sub end_all {
    for my $k ( grep { !exists $ended{$_} } keys %pid ) { kill 'TERM', @{ $family{$k} }; kill 'CONT', @{ $family{$k} } }
    for my $k ( grep { !exists $ended{$_} } keys %pid ) {
        next if reap( $k, 1 );
        kill 'KILL', @{ $family{$k} };
        reap( $k, 1 );
    }
}

find_members();
$left_at{$_} = services_ns($_) for @arms;
for my $k (@arms) {
    my $end = take_slot( $settings{first} ) // now() + $settings{first};
    last if $ending;
    my $start = $started{$k} = begin_slice($k);
    my $child = fork // die "interleave.pl: fork: $!\n";
    if ( !$child ) {
        $SIG{$_} = 'DEFAULT' for qw(TERM INT HUP);
        chdir $folder{$k} or POSIX::_exit(126);
        open my $pid_file, '>', 'pid' or POSIX::_exit(126);
        print $pid_file "$$\n";
        close $pid_file;
        open STDOUT, '>', 'stdout' or POSIX::_exit(126);
        open STDERR, '>', 'stderr' or POSIX::_exit(126);
        exec '/bin/sh', 'cmd' or POSIX::_exit(127);
    }
    $pid{$k}    = $child;
    $family{$k} = [$child];
    print "arm $k $child\n";
    sleep_until( defined $next ? $end : $start + $settings{first} );
    if ( !$ending && !reap( $k, 0 ) ) {
        $family{$k} = [ family($child) ];
        kill 'STOP', @{ $family{$k} };
    }
    end_slice($k);
}

my $over = ( $begin // $started{ $arms[0] } // now() ) + $settings{end} - $settings{slice};
my $round = 0;
while ( !$ending && ( $next // now() ) < $over ) {
    my @alive = grep { !exists $ended{$_} } @{ $rounds[ $round % @rounds ] };
    last if !@alive;
    for my $k ( defined $next ? @{ $rounds[ $round % @rounds ] } : @alive ) {
        last if $ending || ( $next // now() ) >= $over;
        if   ( exists $ended{$k} ) { take_slot( $settings{slice} ) }    # only with `at`: other drivers may go on
        else                       { run_slice( $k, $settings{slice}, 0 ) }
    }
    $round++;
}

# each alone, until it has noticed that its time is over; one that takes long must not keep the others waiting
$next = max( $next, $begin + $settings{end} + $settings{first} ) if defined $next;
for my $tail_s ( $settings{last} // $settings{tail} / 10, $settings{tail} ) {
    for my $k (@arms) {
        last if $ending;
        if ( exists $ended{$k} ) {
            take_slot($tail_s) if defined $next;
            next;
        }
        sleep_until( $started{$k} + $settings{end} );
        run_slice( $k, $tail_s, 1 );
    }
    undef $next;
}
for my $k (@arms) {
    find_new_members($k);
    print "rest $k ", minus( services_ns($k), $left_at{$k} ), "\n";
}
my @hung = grep { !exists $ended{$_} } keys %pid;
if ( !$ending ) { print "hung $_\n" for @hung }
end_all();
exit( $ending ? 143 : @hung ? 124 : 0 );
