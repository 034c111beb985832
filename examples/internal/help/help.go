// Package help prints the help of the example programs in one form: what the program does, how it is called, its flags
// and its exit statuses. It parses nothing.
package help

import (
	"flag"
	"strings"
)

// A Text is the help of one program.
type Text struct {
	// What is a sentence that says what the program does.
	What string
	// Uses are the ways to call it, one or more.
	Uses []Use
	// More stands after the flags. Empty is nothing.
	More string
	// Status says what the exit statuses mean.
	Status string
}

// A Use is one way to call a program.
type Use struct {
	// Line is the program with what it takes.
	Line  string
	Flags *flag.FlagSet
}

// String returns the text.
func (t Text) String() string {
	var text strings.Builder
	text.WriteString(t.What + "\n")
	for _, use := range t.Uses {
		text.WriteString("\nusage: " + use.Line + "\n")
		use.Flags.SetOutput(&text)
		use.Flags.PrintDefaults()
	}
	if t.More != "" {
		text.WriteString("\n" + strings.TrimSuffix(t.More, "\n") + "\n")
	}
	text.WriteString("\nExit status: " + t.Status + "\n")
	return text.String()
}
