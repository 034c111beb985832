//go:build !linux

// Survivors makes the table of what outlives a command. It needs Linux.
package main

func main() { panic("survivors needs Linux: it looks for processes in /proc") }
