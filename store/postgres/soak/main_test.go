//go:build linux

package soak_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/ramdisk"
)

// asChild makes the test binary a host or a sweeper. Its value is a job as JSON.
const asChild = "WATCHDOG_SOAK_CHILD"

// A job is what a child does.
type job struct {
	Sweeper   bool   // else a host
	Name      string // of the process
	Host      string // names the runs
	DSN       string
	Journal   string
	Runs      int
	StartedAt time.Time // of all runs
	Seed      uint64
}

func TestMain(m *testing.M) {
	if text := os.Getenv(asChild); text != "" {
		if err := work(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ramdisk.Use()
	goleak.VerifyTestMain(m)
}

// work is the main of a child. It returns when the child's input ends and all is closed.
func work(text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	book, err := openJournal(j.Journal)
	if err != nil {
		return err
	}
	defer book.file.Close()
	ctx, finish := listen(os.Stdin)
	if j.Sweeper {
		return sweepAll(ctx, j, book)
	}
	return keepAll(ctx, finish, j, book)
}

// listen returns a context that ends with the input, and a channel that is closed when there is a byte to read.
func listen(input *os.File) (context.Context, <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	finish := make(chan struct{})
	go func() {
		defer cancel()
		one := make([]byte, 1)
		if _, err := input.Read(one); err != nil {
			return
		}
		close(finish)
		_, _ = input.Read(one) // nothing more comes
	}()
	return ctx, finish
}
