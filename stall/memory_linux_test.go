package stall_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/stall"
)

// maxGrowth is how much the memory of a host may grow, in bytes.
const maxGrowth = 32 << 20

// TestOutputMemory checks that the memory of a host does not grow with the output.
func TestOutputMemory(t *testing.T) {
	t.Parallel()
	size, line := racing.Rounds[int64](128<<20, 10_000_000_000), racing.Rounds[int64](128<<20, 1<<30)
	for _, c := range []struct {
		name, to string
		bytes    int64
	}{
		{"much of it", "writer", size},
		{"one line, matched with patterns and kept as a tail", "matched", line},
		{"much of it, to a reader that pauses", "slow", 64 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cmd := command(t, "memory:"+c.to+":"+strconv.FormatInt(c.bytes, 10))
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
		})
	}
}

// memory:TO:BYTES runs a command that prints so many bytes, in a host of its own. It fails if the host needed too much
// memory or did not get all bytes.
func memory(argument string) error {
	to, size, _ := strings.Cut(argument, ":")
	cfg := stall.Config{Step: "step", Store: &watchdog.Memory{}, Logger: discard, NoOutput: longTime}
	var got int64
	cmd := exec.Command(os.Args[0], childArg, "flood:"+size)
	cmd.Stdout = counter{&got, 0}
	switch to {
	case "slow":
		cmd.Stdout = counter{&got, 10 * time.Millisecond}
	case "matched":
		cfg.Terminal = []*regexp.Regexp{regexp.MustCompile("FATAL")}
		cfg.Artifacts, cfg.Tail = os.TempDir(), &stall.Tail{Bytes: 1 << 20, Redact: func(p []byte) []byte { return p }}
	}
	warm := exec.Command(os.Args[0], childArg, "flood:1048576")
	warm.Stdout = counter{new(int64), 0}
	if _, err := stall.Run(context.Background(), warm, cfg); err != nil {
		return err
	}
	debug.FreeOSMemory()
	before := peakMemory()
	if _, err := stall.Run(context.Background(), cmd, cfg); err != nil {
		return err
	}
	after := peakMemory()
	if want, _ := strconv.ParseInt(size, 10, 64); got != want {
		return fmt.Errorf("%d bytes of %d came", got, want)
	}
	if before == 0 || after-before > maxGrowth {
		return fmt.Errorf("the host grew from %d to %d bytes", before, after)
	}
	return nil
}

// A counter is a writer that counts the bytes, after a pause.
type counter struct {
	n     *int64
	pause time.Duration
}

func (c counter) Write(p []byte) (int, error) {
	time.Sleep(c.pause)
	for _, b := range p {
		if b != 0 {
			return 0, errors.New("a byte was changed")
		}
	}
	*c.n += int64(len(p))
	return len(p), nil
}

// peakMemory returns the most memory that this process has had, in bytes.
func peakMemory() int64 {
	text, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kilobytes int64
	_, _ = fmt.Sscan(rest, &kilobytes)
	return kilobytes << 10
}
