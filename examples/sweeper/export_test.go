package main

// What the tests run: the program, and the program less what ends the process.
var (
	Main = main
	Run  = run
)
