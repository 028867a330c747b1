# Runs k6, whose script sends the requests of several targets by turns, and divides their points by target.
#
#     perl k6_shared.pl K6_ARGUMENT...
#
# The files `arms` (lines "ARM URL") and `schedule` (lines "ARM REQUESTS") are in the working folder, where k6 writes its
# points to all.csv. Of the points of a request one is kept: it goes to armN/points.csv. The file armN/part has the
# number of the target, that of its requests, the number of requests of all targets without a point, the place of the
# last one in the schedule and its lateness (us), and the least lateness of all (us since 1970, from a schedule that
# begins at 0).
use strict;
use warnings;

my (%requests, %rows, $due, $seen, $least_us);
my ($last_due_us, $last_lateness_us) = (-1, 0);
sub lines { open(my $file, "<", $_[0]) or die "cannot read $_[0]: $!\n"; my @lines = <$file>; chomp @lines; @lines }
for (lines("arms")) {
    my ($arm) = split;
    $requests{$arm} = 0;
    mkdir "arm$arm";
    open($rows{$arm}, ">", "arm$arm/points.csv") or die "cannot write points of arm $arm: $!\n";
}
for (lines("schedule")) {
    my ($arm, $requests) = split;
    $requests{$arm} += $requests;
    $due += $requests;
}
$ENV{K6_CSV_TIME_FORMAT} = "unix_micro";
my $status = system(@ARGV);
exit($status & 127 ? 128 + ($status & 127) : $status >> 8 || 1) if $status;

open(my $points, "<", "all.csv") or die "cannot read all.csv: $!\n";
my $header = <$points> // die "k6 wrote no points\n";
print {$_} $header for values %rows;
while (<$points>) {
    next unless /^http_req_duration,(\d+),([\d.]+),/;
    my ($ended_us, $ms) = ($1, $2);
    my ($arm) = /\barm=(\d+)/ or die "a point of no target: $_";
    my ($due_us) = /\bdue_us=(\d+)/ or die "a point without its place in the schedule: $_";
    my $lateness_us = $ended_us - int($ms * 1000 + 0.5) - $due_us;
    $least_us = $lateness_us if !defined $least_us || $lateness_us < $least_us;
    ($last_due_us, $last_lateness_us) = ($due_us, $lateness_us) if $due_us > $last_due_us;
    $seen++;
    print {$rows{$arm}} $_;
}
my $lost = $due - ($seen // 0);
for my $arm (keys %rows) {
    close $rows{$arm} or die "cannot write points of arm $arm: $!\n";
    open(my $part, ">", "arm$arm/part") or die "cannot write arm$arm/part: $!\n";
    print $part "arm $arm\nrequests $requests{$arm}\nlost $lost\n";
    next unless defined $least_us;
    printf $part "due_us %d\nlate_us %d\n", $last_due_us, $last_lateness_us - $least_us;
    printf $part "least_lateness_us %.0f\n", $least_us;
    close $part or die "cannot write arm$arm/part: $!\n";
}
unlink "all.csv";
