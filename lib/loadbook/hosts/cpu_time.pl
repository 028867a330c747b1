# Clocks, and the CPU time of processes on this machine: for interleave.pl and cpu_samples.pl. Needs perl-base only.

use strict;
use warnings;
use POSIX ();

# clock_gettime by its number: Debian's perl-base has no Time::HiRes
my %number = ( x86_64 => 228, aarch64 => 113, riscv64 => 113 );
my $number = $number{ ( POSIX::uname() )[4] };
my $has_hires = eval { require Time::HiRes; 1 };
die "$0: no Time::HiRes, and an unknown machine\n" if !$has_hires && !$number;

sub clock {    # seconds of a clock: 0 the time of day, 1 monotonic
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

sub family {    # processes and everything that they started
    my @found = @_;
    my %known = map { $_ => 1 } @found;
    for my $pid (@found) {    # grows while it is read
        for my $list ( glob "/proc/$pid/task/*/children" ) {
            push @found, grep { !$known{$_}++ } split ' ', first_line($list);
        }
    }
    return @found;
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
        my $used = 0;
        for ( glob "/proc/$pid/task/*/schedstat" ) {
            my @values = split ' ', first_line($_);
            $used   += $values[0] // 0;
            $waited += $values[1] // 0;
        }
        my ( undef, $rest ) = split /.*\) /, first_line("/proc/$pid/stat"), 2;
        my @fields = split ' ', $rest // '';
        next if @fields < 15;
        my $ticks = ( $fields[11] + $fields[12] ) * 1e7;
        $sum += ( $used > $ticks ? $used : $ticks ) + ( $fields[13] + $fields[14] ) * 1e7;
    }
    return ( $sum, $waited );
}

sub cpu_ns { return ( cpu_times(@_) )[0] }

1;
