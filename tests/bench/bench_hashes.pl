# Builds and drops hashes of arrays and strings, as a log summariser does.
use strict;
use warnings;

my ($rounds, $keys) = (shift // 4, shift // 40000);
my $total = 0;
for my $round (1 .. $rounds) {
	my %by_key;
	for my $i (1 .. $keys) {
		my $key = "user" . ($i * 7919 % $keys);
		push @{ $by_key{$key}{requests} }, "GET /page/$i?round=$round";
		$by_key{$key}{bytes} += $i;
		$by_key{ substr($key, 0, 6) }{count}++;
	}
	for my $key (sort keys %by_key) {
		my $requests = $by_key{$key}{requests} or next;
		$total += length join ',', @$requests;
	}
}
print "$total\n";
