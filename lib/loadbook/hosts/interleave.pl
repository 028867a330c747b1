#!/usr/bin/perl
# Let the load generators of several arms take turns: one runs, the others are stopped (SIGSTOP). Needs perl-base only.
#
#   interleave.pl SCHEDULE       run in the folder of a job, as the leader of one of its steps
#
# SCHEDULE has a line each:
#   arm K FOLDER                arm K is started in FOLDER by `sh cmd`; files stdout, stderr and pid are made there
#   slice S, gap S, first S     seconds of a slice, of the pause before one, and of an arm's first slice, in which it starts
#   end S                       seconds from its start after which a generator ends by itself; nothing starts a slice later
#   tail S                      seconds that a generator may still take when its time is over; then it is killed
#   order K K K ...             a round; the last ones are repeated when there are too few
#
# Prints `clock MONOTONIC REALTIME`, `arm K PID`, for every slice `slice K START END` (seconds, monotonic clock), for every
# generator `exit K RC CPU_S` (RC is that of a shell: 128 + signal), and `hung K` for one that did not end by itself.
# Generators stay in the process group of the job, so that whatever ends the job ends them; KILL reaches stopped processes.
# TERM, INT and HUP continue and end all of them first.

use strict;
use warnings;
use POSIX ();

# clock_gettime by its number: Debian's perl-base has no Time::HiRes
my %number = ( x86_64 => 228, aarch64 => 113, riscv64 => 113 );
my $number = $number{ ( POSIX::uname() )[4] };
my $has_hires = eval { require Time::HiRes; 1 };
die "interleave.pl: no Time::HiRes, and an unknown machine\n" if !$has_hires && !$number;

sub clock {    # seconds of a clock: 0 the time of day, 1 monotonic
    my ($id) = @_;
    return Time::HiRes::clock_gettime($id) if $has_hires;
    my $buffer = pack 'q q', 0, 0;
    syscall( $number, $id, $buffer );
    my ( $seconds, $nanoseconds ) = unpack 'q q', $buffer;
    return $seconds + $nanoseconds / 1e9;
}

sub now { return clock(1) }

my ( %settings, %folder, @arms, @rounds );
open my $schedule, '<', $ARGV[0] or die "interleave.pl: $ARGV[0]: $!\n";
while (<$schedule>) {
    my ( $key, @words ) = split;
    if    ( $key eq 'arm' )   { push @arms, $words[0]; $folder{ $words[0] } = $words[1] }
    elsif ( $key eq 'order' ) { push @rounds, [@words] }
    else                      { $settings{$key} = $words[0] }
}
close $schedule;

my ( %pid, %family, %started, %ended, $ending );
$SIG{$_} = sub { $ending = 1 }
  for qw(TERM INT HUP);
$SIG{CHLD} = 'DEFAULT';
$| = 0;
printf "clock %.6f %.6f\n", now(), clock(0);

sub sleep_until {    # a signal that ends the job ends the wait
    my ($until) = @_;
    while ( !$ending && ( my $left = $until - now() ) > 0 ) { select undef, undef, undef, $left }
}

sub family {    # a process and everything that it started
    my ($parent) = @_;
    my @found = ($parent);
    for my $list ( glob "/proc/$parent/task/*/children" ) {
        open my $children, '<', $list or next;
        push @found, map { family($_) } split ' ', <$children> // '';
    }
    return @found;
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

sub run_slice {    # let arm $k run until $until, or until it ends within $wait_s more
    my ( $k, $length_s, $whole ) = @_;
    my $start = now();
    kill 'CONT', @{ $family{$k} };
    if   ($whole) { reap( $k, $length_s ) }
    else          { sleep_until( $start + $length_s ) }
    kill 'STOP', @{ $family{$k} } if !$ending && !reap( $k, 0 );
    printf "slice %s %.6f %.6f\n", $k, $start, now();
}

sub end_all {
    for my $k ( grep { !exists $ended{$_} } keys %pid ) { kill 'TERM', @{ $family{$k} }; kill 'CONT', @{ $family{$k} } }
    for my $k ( grep { !exists $ended{$_} } keys %pid ) {
        next if reap( $k, 1 );
        kill 'KILL', @{ $family{$k} };
        reap( $k, 1 );
    }
}

for my $k (@arms) {
    last if $ending;
    my $start = $started{$k} = now();
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
    sleep_until( $start + $settings{first} );
    if ( !$ending && !reap( $k, 0 ) ) {
        $family{$k} = [ family($child) ];
        kill 'STOP', @{ $family{$k} };
    }
    printf "slice %s %.6f %.6f\n", $k, $start, now();
    sleep_until( now() + $settings{gap} );
}

my $over = ( $started{ $arms[0] } // now() ) + $settings{end} - $settings{slice};
my $round = 0;
while ( !$ending && now() < $over ) {
    my @alive = grep { !exists $ended{$_} } @{ $rounds[ $round++ % @rounds ] };
    last if !@alive;
    for my $k (@alive) {
        last if $ending || now() >= $over;
        run_slice( $k, $settings{slice}, 0 );
        sleep_until( now() + $settings{gap} );
    }
}

# each alone, until it has noticed that its time is over; one that takes long must not keep the others waiting
for my $tail_s ( $settings{tail} / 10, $settings{tail} ) {
    for my $k (@arms) {
        last if $ending;
        next if exists $ended{$k};
        sleep_until( $started{$k} + $settings{end} );
        run_slice( $k, $tail_s, 1 );
        sleep_until( now() + $settings{gap} );
    }
}
my @hung = grep { !exists $ended{$_} } keys %pid;
if ( !$ending ) { print "hung $_\n" for @hung }
end_all();
exit( $ending ? 143 : @hung ? 124 : 0 );
