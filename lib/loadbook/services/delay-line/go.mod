module loadbook/delay-line

go 1.19
