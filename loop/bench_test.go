package loop_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog/loop"
)

// BenchmarkStep judges steps of the sizes and forms that agents have, and reports how long that takes in multiples of
// the SHA-256 of the same bytes, measured beside it.
func BenchmarkStep(b *testing.B) {
	code := strings.Repeat("\tif err := run(ctx, name, 1200); err != nil {\n\t\treturn fmt.Errorf(\"run %s: %w\", name, err)\n\t}\n", 80)
	log := strings.Repeat("2026-11-22T17:00:00Z INFO took 1.2s for https://example.org/a/b?c=1 (attempt 2 of 3)\n", 80)
	var tools []string
	for n := range 500 { // so that none repeats
		tools = append(tools, fmt.Sprint("tool_", n))
	}
	for name, s := range map[string]loop.Step{
		"shell": {Input: []byte(`{"command":"go test ./... 2>&1 | tail -50"}`), Outcome: []byte(log)},
		"read":  {Input: []byte(`{"path":"src/main.go","offset":100}`), Outcome: []byte(code)},
		"write": {Input: quoted(code), Outcome: []byte("The file was written.")},
		"json":  {Input: []byte(`{"page":3}`), Outcome: []byte(rows())},
	} {
		b.Run(name, func(b *testing.B) {
			var d loop.Detector
			b.ReportAllocs()
			stepping, hashing := time.Hour, time.Hour // the least of all rounds, because the machine does other work
			n := 0
			for b.Loop() {
				start := time.Now()
				for range 20 {
					s.Tool = tools[n%len(tools)]
					n++
					d.Step(s)
				}
				stepped := time.Now()
				for range 20 {
					sha256.Sum256(s.Input)
					sha256.Sum256(s.Outcome)
				}
				stepping, hashing = min(stepping, stepped.Sub(start)), min(hashing, time.Since(stepped))
			}
			b.ReportMetric(float64(stepping)/float64(hashing), "x-sha256")
			b.ReportMetric(float64(stepping)/20, "ns/step")
		})
	}
}

// quoted is the input of a tool that writes a file.
func quoted(text string) []byte {
	text = strings.NewReplacer("\n", `\n`, "\t", `\t`, `"`, `\"`).Replace(text)
	return []byte(`{"path":"src/main.go","content":"` + text + `"}`)
}

func rows() string {
	row := `{"id":12345,"name":"Ada Berg","email":"ada@example.org","score":0.5,"open":true,"tags":["a","b"]}`
	return "[" + strings.Repeat(row+",", 80) + row + "]"
}
