package progress_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/examples/autosession/internal/progress"
)

const erase = "\r\x1b[K"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A screen records what was written. Take returns it and empties the screen.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(text)
}

func (s *screen) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.text.Reset()
	return s.text.String()
}

func columns(n int) func() int { return func() int { return n } }

func TestTerminal(t *testing.T) {
	t.Run("the live line is drawn at once and again each second", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			begun, s := time.Now(), &screen{}
			d := progress.New(s, columns(80))
			defer d.Close()
			d.Live(func() string { return fmt.Sprintf("%v elapsed", time.Since(begun)) })
			assert.Equal(t, "0s elapsed", s.take())
			pass(time.Second)
			assert.Equal(t, erase+"1s elapsed", s.take())
			pass(2 * time.Second)
			assert.Equal(t, erase+"2s elapsed"+erase+"3s elapsed", s.take())
		})
	})
	t.Run("permanent lines go above it", func(t *testing.T) {
		s := &screen{}
		d := progress.New(s, columns(80))
		defer d.Close()
		d.Live(func() string { return "live" })
		s.take()
		d.Say("built in %d s", 3)
		assert.Equal(t, erase+"built in 3 s\nlive", s.take())
		fmt.Fprintln(d, "logged")
		assert.Equal(t, erase+"logged\nlive", s.take())
		d.Note("not on a terminal")
		assert.Empty(t, s.take())
	})
	t.Run("Close erases it, and nothing follows", func(t *testing.T) {
		s := &screen{}
		d := progress.New(s, columns(80))
		d.Live(func() string { return "live" })
		s.take()
		d.Close()
		d.Close()
		d.Say("too late")
		d.Live(func() string { return "too late" })
		assert.Equal(t, erase, s.take())
	})
	t.Run("after Live(nil) it is not drawn again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &screen{}
			d := progress.New(s, columns(80))
			defer d.Close()
			d.Live(func() string { return "live" })
			d.Live(nil)
			assert.Equal(t, "live"+erase, s.take())
			pass(3 * time.Second)
			assert.Empty(t, s.take())
		})
	})
	t.Run("Close stops a drawing in progress", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &screen{}
			d := progress.New(s, columns(80))
			drawing, on := make(chan struct{}), make(chan struct{})
			calls := 0
			d.Live(func() string {
				if calls++; calls == 2 {
					close(drawing)
					<-on
				}
				return "live"
			})
			<-drawing
			go d.Close()
			synctest.Wait()
			s.take()
			close(on)
			synctest.Wait()
			assert.Empty(t, s.take())
		})
	})
}

func pass(d time.Duration) {
	time.Sleep(d) // in a bubble
	synctest.Wait()
}

func TestWidth(t *testing.T) {
	for _, c := range []struct {
		width int
		want  string
	}{
		{80, "build 2 of 4 ?"},
		{15, "build 2 of 4 ?"},
		{14, "build 2 of..."},
		{5, "b..."},
		{4, "bui"},
		{2, "b"},
		{1, ""},
		{0, ""},
	} {
		t.Run(fmt.Sprintf("a terminal of %d columns keeps the last one free", c.width), func(t *testing.T) {
			s := &screen{}
			d := progress.New(s, columns(c.width))
			defer d.Close()
			d.Live(func() string { return "build 2 of 4 \n" })
			assert.Equal(t, c.want, s.take())
		})
	}
	t.Run("each drawing asks for the width", func(t *testing.T) {
		s, width := &screen{}, 80
		d := progress.New(s, func() int { return width })
		defer d.Close()
		d.Live(func() string { return "build 2 of 4" })
		s.take()
		width = 8
		d.Say("")
		assert.Equal(t, erase+"\nbuil...", s.take())
	})
}

func TestElsewhere(t *testing.T) {
	path := t.TempDir() + "/out"
	file, err := os.Create(path)
	require.NoError(t, err)
	defer file.Close()
	d := progress.On(file)
	d.Live(func() string { return "live" })
	d.Say("said")
	d.Note("noted")
	d.Live(nil)
	d.Close()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "said\nnoted\n", string(text), "without a terminal only permanent lines are written")
}
