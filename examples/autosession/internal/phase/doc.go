// Package phase runs the commands of a session: each under the stall sentinel, with its output in a log, and ended with everything
// that it started when its context ends.
//
// What a command left behind is ended when it has ended, so that a phase is over when it returns, and on Linux a command does not outlive this program either. See
// package stall for what other systems can do. The package looks for no signs of life: how long a phase may take is its context's to say.
package phase
