package main

// Main runs the program in the test binary.
func Main() { main() }

// Quote quotes a word for a POSIX shell.
var Quote = quote
