package main

import (
	"os"

	"golang.org/x/term"
)

// A style marks text on a terminal. The zero value leaves it as it is.
type style struct{ on bool }

// styleOf returns the style for what is written to a file: none if that is no terminal, or a dumb one, or if NO_COLOR
// is set to anything but an empty text.
func styleOf(file *os.File) style {
	return style{os.Getenv("NO_COLOR") == "" && isTerminal(file)}
}

// isTerminal reports whether a file is a terminal that heeds escape sequences.
func isTerminal(file *os.File) bool {
	return file != nil && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(file.Fd()))
}

func (s style) bold(text string) string { return s.marked("1", text) }
func (s style) dim(text string) string  { return s.marked("2", text) }

func (s style) marked(how, text string) string {
	if !s.on || text == "" {
		return text
	}
	return "\x1b[" + how + "m" + text + "\x1b[0m"
}
