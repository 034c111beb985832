package redact_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/redact"
)

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		_, err := redact.New()
		require.NoError(b, err)
	}
}

func BenchmarkBytes(b *testing.B) {
	const line = "2026-01-01T00:00:00Z INFO waiting for resource foo/bar to be ready, attempt 12 of 99 (key: value)\n"
	r := newRedactor(b)
	for _, size := range []int{1 << 10, 64 << 10} {
		plain := strings.Repeat(line, size/len(line)+1)[:size]
		var leaks strings.Builder
		for seed := uint64(0); leaks.Len() < size; seed++ {
			for _, c := range canaries(seed) {
				leaks.WriteString(c.line + "\n")
			}
		}
		for name, text := range map[string]string{"plain": plain, "credentials only": leaks.String()[:size]} {
			b.Run(name+"/"+strconv.Itoa(size>>10)+"KiB", func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					r.Bytes([]byte(text))
				}
			})
		}
	}
}
