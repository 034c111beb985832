// Package phase runs the commands of a session. Each runs under the stall sentinel and writes its output to a log. When
// its context ends, Run ends the command and every process that it started.
//
// Run also ends what a command left running: no process of a phase is alive when Run returns. On Linux no command
// outlives this program; package stall documents the other systems. The package sets no time limits: the context does.
package phase
