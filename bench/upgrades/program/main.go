// A program that a test talks to, in a version of the library that it is built with: each line of its input asks for
// something, and is answered by a line.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

func main() {
	store, err := sqlite.Open(context.Background(), os.Args[1])
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	h := &host{store: store, holds: map[string]*watchdog.Hold{}}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		answer, err := h.do(strings.Fields(in.Text()))
		if err != nil {
			answer = "error: " + strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Println(answer)
	}
	if err := errors.Join(h.run.Close(), store.Close()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A host has one run.
type host struct {
	store *sqlite.Store
	run   *watchdog.Watchdog
	holds map[string]*watchdog.Hold
}

// attach attaches to a run, with its start if it is given; else the store keeps that.
func (h *host) attach(id string, start []string) (err error) {
	run := watchdog.Run{ID: id}
	if len(start) > 0 {
		if run.StartedAt, err = time.Parse(time.RFC3339Nano, start[0]); err != nil {
			return err
		}
	} else if f := reflect.ValueOf(&run).Elem().FieldByName("Continue"); f.IsValid() { // of the older version
		f.SetBool(true)
	}
	h.run, err = watchdog.New(context.Background(), run, watchdog.Config{
		Store: h.store, Budget: watchdog.Budget{WallClock: 24 * time.Hour}, Logger: slog.New(slog.DiscardHandler),
	})
	return err
}

// do does what a line asks for.
func (h *host) do(asked []string) (answer string, err error) {
	ctx := context.Background()
	switch asked[0] {
	case "attach":
		err := h.attach(asked[1], asked[2:])
		return h.run.StartedAt().Format(time.RFC3339Nano), err
	case "hold":
		h.holds[asked[1]], err = h.run.Hold(ctx, asked[1], watchdog.HoldLimit{Cap: 2 * time.Hour, PausesWallClock: true})
		return "held", err
	case "release":
		return fmt.Sprint(h.holds[asked[1]].Close()), nil
	case "extend":
		return "extended", h.run.Extend(time.Hour)
	case "cancel":
		_, err := h.run.Cancel(watchdog.Cancellation{Reason: "user_cancelled"})
		return "cancelled", err
	case "sync":
		_, err := h.run.Sync(ctx)
		return "synced", err
	case "fired":
		code, _ := h.run.Fired()
		return string(code), nil
	case "paused":
		before := h.run.Elapsed()
		worked := 24*time.Hour - h.run.Remaining()
		return (before - worked).String(), nil
	case "remaining":
		return h.run.Remaining().String(), nil
	case "close":
		return "closed", h.run.Close()
	}
	return "", fmt.Errorf("nobody knows %q", asked)
}
