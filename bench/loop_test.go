package bench_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/seed62658d38/watchdog/loop"
)

// BenchmarkLoopStep judges one step with 1 KiB of input and 1 KiB of outcome, beside the canonical form of both by
// encoding/json and its SHA-256.
func BenchmarkLoopStep(b *testing.B) {
	for _, shape := range []struct{ name, input, outcome string }{
		{"json", kibibyte(`"path":"src/file.go","line":12,"old":"a\n"`), kibibyte(`"hit":"src/a.go:3: took 1.2s","score":0.5`)},
		{"sorted", kibibyte(`"line":12,"old":"abc","path":"src/file.go"`), kibibyte(`"hit":"src/a.go:3","score":0.5`)},
	} {
		input, outcome := []byte(shape.input), []byte(shape.outcome)
		for _, class := range []loop.Class{loop.Look, ""} {
			b.Run(fmt.Sprintf("shape=%s/with=loop,class=%q", shape.name, class), func(b *testing.B) {
				var d loop.Detector
				b.ReportAllocs()
				for b.Loop() {
					d.Step(loop.Step{Tool: "grep", Input: input, Outcome: outcome, Class: class})
				}
			})
		}
		b.Run(fmt.Sprintf("shape=%s/with=json", shape.name), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				canonicalSum(b, input)
				canonicalSum(b, outcome)
			}
		})
	}
	text := []byte(strings.Repeat("ok  \texample.org/pkg/name\t0.012s\n", 32))
	b.Run("shape=text/with=loop", func(b *testing.B) {
		var d loop.Detector
		b.ReportAllocs()
		for b.Loop() {
			d.Step(loop.Step{Tool: "run", Input: text, Outcome: text, Class: loop.Look})
		}
	})
}

// kibibyte is a JSON object of about 1 KiB that has the members again and again, under names of their own.
func kibibyte(members string) string {
	var text strings.Builder
	for n := 0; text.Len() < 1<<10; n++ {
		fmt.Fprintf(&text, `%s"item%d":{%s}`, map[bool]string{true: ",", false: "{"}[n > 0], n, members)
	}
	return text.String() + "}"
}

func canonicalSum(b *testing.B, text []byte) [sha256.Size]byte {
	b.Helper()
	var value any
	check(b, json.Unmarshal(text, &value))
	form, err := json.Marshal(value)
	check(b, err)
	return sha256.Sum256(form)
}
