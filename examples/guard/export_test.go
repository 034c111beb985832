package main

// Main runs the program in the test binary.
func Main() { main() }

// Usage returns the help text.
var Usage = usage

// Refused returns the error for a command line, nil for a valid one.
func Refused(args []string) error {
	_, err := parse(args)
	return err
}
