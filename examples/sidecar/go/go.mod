module example.org/leader

go 1.21
