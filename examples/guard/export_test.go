package main

// Main is the program, for the test binary to be.
func Main() { main() }

// Usage is the help text.
var Usage = usage

// Refused is what the program says to a command line that cannot be meant, nil for one that can.
func Refused(args []string) error {
	_, err := parse(args)
	return err
}
