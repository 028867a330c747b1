# Clocks, files of /proc, and the CPU time of processes on this machine: for interleave.pl, cpu_samples.pl and sampler.pl.
# Needs perl-base only.

use strict;
use warnings;
use POSIX ();

# clock_gettime by its number: Debian's perl-base has no Time::HiRes
my %number = ( x86_64 => 228, aarch64 => 113, riscv64 => 113 );
my $number = $number{ ( POSIX::uname() )[4] };
my $has_hires = eval { require Time::HiRes; 1 };
die "$0: no Time::HiRes, and an unknown machine\n" if !$has_hires && !$number;

sub clock {    # seconds of a clock: 0 the time of day, 1 monotonic, 2 CPU time of this process
    my ($id) = @_;
    return Time::HiRes::clock_gettime($id) if $has_hires;
    my $buffer = pack 'q q', 0, 0;
    syscall( $number, $id, $buffer );
    my ( $seconds, $nanoseconds ) = unpack 'q q', $buffer;
    return $seconds + $nanoseconds / 1e9;
}

sub now { return clock(1) }

sub first_line {
    open my $file, '<', $_[0] or return '';
    my $line = <$file>;
    return $line // '';
}

# Files that are read at every slice or sample stay open. After files of /proc were closed, a load generator goes to sleep
# and wakes up about twice as often for some 20 ms, and the server pays for its wake-ups (docs/interleaving.md).
my %files;
my $max_files = 800;    # of 1024 that a process may usually have open; further ones are closed

sub read_again {        # the text of a file; '' if it cannot be read any more
    my ($path) = @_;
    my $file = $files{$path};
    if ( !$file ) {
        open $file, '<', $path or return '';
        $files{$path} = $file if keys %files < $max_files;
    }
    sysseek $file, 0, 0;
    my ( $text, $size ) = ('');
    do { $size = sysread $file, $text, 65536, length $text } while $size;
    delete $files{$path} if !defined $size;
    return $text;
}

my %threads;    # process -> [number of its threads, their ids]

sub stat_fields {    # of /proc/PID/stat, from the third one; empty if the process is gone
    my ($pid) = @_;
    my ( undef, $rest ) = split /.*\) /s, read_again("/proc/$pid/stat"), 2;
    return split ' ', $rest // '';
}

sub threads_of {    # listed anew when their number has changed
    my ( $pid, $number ) = @_;
    if ( !$threads{$pid} || $threads{$pid}[0] != $number ) {
        $threads{$pid} = [ $number, map { m{(\d+)$} } glob "/proc/$pid/task/*" ];
    }
    my ( undef, @ids ) = @{ $threads{$pid} };
    return @ids;
}

sub family {    # the processes that run, and everything that they started
    my @found = @_;
    my @alive;
    my %known = map { $_ => 1 } @found;
    for my $pid (@found) {    # grows while it is read
        my @fields = stat_fields($pid) or next;
        push @alive, $pid;
        for my $thread ( threads_of( $pid, $fields[17] ) ) {
            push @found, grep { !$known{$_}++ } split ' ', read_again("/proc/$pid/task/$thread/children");
        }
    }
    return @alive;
}

sub processes_of {    # leader of a session or process group -> list of its processes
    my %of = map { $_ => [] } @_;
    for my $path ( glob '/proc/[0-9]*/stat' ) {
        my $line = first_line($path);
        my ( undef, undef, $group, $session ) = split ' ', ( split /.*\) /, $line, 2 )[1] // next;
        my ($leader) = grep { exists $of{$_} } $session, $group;
        push @{ $of{$leader} }, $line =~ /^(\d+)/ if defined $leader;
    }
    return %of;
}

# CPU time of processes (ns): of their threads (also of those that ended), and of their children that ended; then the
# time for which the threads could run and got no CPU, which the kernel adds when they get one
sub cpu_times {
    my ( $sum, $waited ) = ( 0, 0 );
    for my $pid (@_) {
        my @fields = stat_fields($pid) or next;
        my $used = 0;
        for my $thread ( threads_of( $pid, $fields[17] ) ) {
            my ( $ran, $queued ) = split ' ', read_again("/proc/$pid/task/$thread/schedstat");
            if ( !defined $ran ) { delete $threads{$pid}; next }    # it ended: another one may have taken its place
            $used   += $ran;
            $waited += $queued;
        }
        my $ticks = ( $fields[11] + $fields[12] ) * 1e7;
        $sum += ( $used > $ticks ? $used : $ticks ) + ( $fields[13] + $fields[14] ) * 1e7;
    }
    return ( $sum, $waited );
}

sub cpu_ns { return ( cpu_times(@_) )[0] }

1;
