module loadbook/go-app

go 1.19
