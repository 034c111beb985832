package main

// Main runs the program in the test binary.
func Main() { main() }

// Ago is for tests of the text.
var Ago = ago

// TableText returns the text of a table.
func TableText(rows [][]string, width int) string { return table(rows).text(width) }
