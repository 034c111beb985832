package main

// Main runs the program in the test binary.
func Main() { main() }
