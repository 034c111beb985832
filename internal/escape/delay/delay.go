// Package delay makes a program slow to start, or has it exit, before package proctree is initialized: its import path
// comes first. Tests import it to see what a host does whose guard does not start.
package delay

import (
	"os"
	"strconv"
	"time"
)

// Variable is the environment variable that says what to do: a duration to sleep, or a status to exit with.
const Variable = "WATCHDOG_TEST_DELAY"

func init() {
	value := os.Getenv(Variable)
	if d, err := time.ParseDuration(value); err == nil {
		time.Sleep(d)
	}
	if status, err := strconv.Atoi(value); err == nil {
		os.Exit(status)
	}
}
