module installed

go 1.26.0
