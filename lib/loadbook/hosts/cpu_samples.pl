#!/usr/bin/perl
# Read the CPU time of services every few milliseconds, on a machine without load generators. Needs perl-base only.
#
#   cpu_samples.pl INTERVAL LIMIT LEADER...     seconds between readings, seconds after which it ends, process ids
#
# Prints for each reading: time of day (s), then the CPU time (ns) used so far by the processes whose session or process
# group has each leader; - for a leader without processes. INT, TERM and HUP end it, after what it has read is printed.

use strict;
use warnings;
require( ( $0 =~ m{^(.*/)}s ? $1 : './' ) . 'cpu_time.pl' );

my ( $interval_s, $limit_s, @leaders ) = @ARGV;
my $ending;
$SIG{$_} = sub { $ending = 1 }
  for qw(TERM INT HUP);
my %processes = processes_of(@leaders);
my $start = now();
for ( my $reading = 0 ; !$ending && now() < $start + $limit_s ; $reading++ ) {
    my @values;
    for my $leader (@leaders) {
        $processes{$leader} = [ family( @{ $processes{$leader} } ) ];
        push @values, @{ $processes{$leader} } ? cpu_ns( @{ $processes{$leader} } ) : '-';
    }
    printf "%s\n", join ' ', sprintf( '%.6f', clock(0) ), @values;
    my $left = $start + ( $reading + 1 ) * $interval_s - now();
    if   ( $left > 0 ) { select undef, undef, undef, $left }
    else               { $reading += POSIX::ceil( -$left / $interval_s ) }
}
