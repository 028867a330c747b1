# Attacks several targets with one vegeta, in the order of a schedule, and divides the results by target.
#
#     perl vegeta_shared.pl INTERVAL_NS OPTION...
#
# The files `arms` (lines "ARM URL") and `schedule` (lines "ARM REQUESTS") are in the working folder. vegeta takes
# its targets in the order of their file and ends after the last one, however late it is. INTERVAL_NS is the time
# between two places in vegeta's schedule. Each target's rows, without the response headers, go to armN/results.csv.
# The file armN/part has its number, that of its requests, the number of requests of all targets without a row, the place
# of the last one in the schedule and its lateness (us), and the least lateness of all (us since 1970, from a schedule
# that begins at 0).
use strict;
use warnings;
use integer;

my ($interval_ns, @options) = @ARGV;
my (%url, %requests, %rows, $due, $seen, $least_ns);
my ($last, $last_lateness_ns) = (-1, 0);
sub lines { open(my $file, "<", $_[0]) or die "cannot read $_[0]: $!\n"; my @lines = <$file>; chomp @lines; @lines }
for (lines("arms")) {
    my ($number, $url) = split / /, $_, 2;
    ($url{$number}, $requests{$number}) = ("$url#$number", 0);    # no client sends the part after "#"
    mkdir "arm$number";
    open($rows{$number}, ">", "arm$number/results.csv") or die "cannot write rows of arm $number: $!\n";
}
open(my $targets, ">", "targets.txt") or die "cannot write targets.txt: $!\n";
for (lines("schedule")) {
    my ($number, $requests) = split;
    print $targets "GET $url{$number}\n" x $requests;
    $requests{$number} += $requests;
    $due += $requests;
}
close $targets or die "cannot write targets.txt: $!\n";

my $status = system("vegeta", "attack", "-targets=targets.txt", "-lazy", "-output=results.gob", @options);
exit($status & 127 ? 128 + ($status & 127) : $status >> 8 || 1) if $status;

open(my $results, "-|", "vegeta", "encode", "-to", "csv", "results.gob") or die "cannot run vegeta encode: $!\n";
my $row = "";
while (my $line = <$results>) {
    $row .= $line;
    next if ($row =~ tr/"//) % 2;    # an error message with several lines
    $row =~ s/[^,]*$//;              # the response headers, the last column
    if ($row =~ /^\d+,0,\d+,0,0,no targets to attack,/) { $row = ""; next }    # after the last target; no request
    my ($start_ns) = $row =~ /^(\d+),/ or die "not a row of vegeta: $row\n";
    my ($number, $arm) = $row =~ /,(\d+),GET,.*#(\d+)"?,$/ or die "vegeta refused a target: $row\n";
    $row =~ s/#$arm("*[,:])/$1/g;
    my $lateness_ns = $start_ns - $number * $interval_ns;
    $least_ns = $lateness_ns if !defined $least_ns || $lateness_ns < $least_ns;
    ($last, $last_lateness_ns) = ($number, $lateness_ns) if $number > $last;
    $seen++;
    print {$rows{$arm}} "$row\n";
    $row = "";
}
close $results or exit 1;
my $lost = $due - ($seen // 0);
for my $number (keys %url) {
    close $rows{$number} or die "cannot write rows of arm $number: $!\n";
    open(my $part, ">", "arm$number/part") or die "cannot write arm$number/part: $!\n";
    print $part "arm $number\nrequests $requests{$number}\nlost $lost\n";
    next unless defined $least_ns;
    printf $part "due_us %d\nlate_us %d\n", $last * $interval_ns / 1000, ($last_lateness_ns - $least_ns) / 1000;
    printf $part "least_lateness_us %s\n", $least_ns / 1000;
    close $part or die "cannot write arm$number/part: $!\n";
}
unlink "targets.txt", "results.gob";
