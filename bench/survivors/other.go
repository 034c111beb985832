//go:build !linux

// Survivors measures which processes outlive a command. It needs Linux.
package main

func main() { panic("survivors needs Linux: it looks for processes in /proc") }
