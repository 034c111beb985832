package main

// Main is the program, for the test binary to be.
func Main() { main() }

// Quote is a word as a POSIX shell takes it.
var Quote = quote
