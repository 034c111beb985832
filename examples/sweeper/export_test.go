package main

// The program, and main without os.Exit.
var (
	Main = main
	Run  = run
)
