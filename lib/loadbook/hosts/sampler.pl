# sampler.pl INTERVAL_S COUNT [LABEL=PIDFILE ...]
#
# Prints what sampler.sh prints, with a tenth of its CPU time: one process reads files that stay open, and starts no other.
# Needs perl-base and cpu_time.pl, beside it, only. Samples begin INTERVAL_S apart; those that are missed are left out.

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
    print "$sample.\n";
    $next += $interval_s;
    $next = now() if $next < now() - $interval_s;
    while ( ( my $left = $next - now() ) > 0 ) { select undef, undef, undef, $left }
}
