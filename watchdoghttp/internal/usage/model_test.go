package usage_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/watchdoghttp/internal/usage"
)

// TestReaderModel protects the scanner by a naive one, which has package encoding/json read whole bodies and takes the
// same fields from the maps: over JSON of random form, in which the names that matter stand everywhere.
func TestReaderModel(t *testing.T) {
	for seed := range racing.Rounds[uint64](20_000, 20_000) {
		rng := rand.New(rand.NewPCG(seed, 4))
		body := randomRoot(rng)
		require.True(t, json.Valid([]byte(body)), body)
		want := naive(t, body)
		require.Equal(t, want, read(usage.Chat, "", []byte(body)), "seed %d: %s", seed, body)
		event := "data: " + body + "\n\n"
		got := read(usage.Chat, "", []byte(event[:len(event)/2]), []byte(event[len(event)/2:]))
		require.Equal(t, want.Usage, got.Usage, "seed %d: %s", seed, body)
	}
}

var modelKeys = []string{"usage", "prompt_tokens", "completion_tokens", "x", `us\u0061ge`, `\u0075sage`, "choices", `\"usage`, "model2"}

// randomRoot is an object, most often with a usage.
func randomRoot(rng *rand.Rand) string {
	var members []string
	for range rng.IntN(5) {
		members = append(members, randomMember(rng, 4))
	}
	if rng.IntN(4) > 0 {
		usage := fmt.Sprintf(`"usage":%s{"prompt_tokens" :%d,%s,"completion_tokens":%d}`,
			strings.Repeat(" ", rng.IntN(3)), rng.IntN(1000), randomMember(rng, 2), rng.IntN(1000))
		members = append(members, usage)
	}
	rng.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return "{" + strings.Join(members, ",") + "}"
}

func randomMember(rng *rand.Rand, depth int) string {
	return `"` + modelKeys[rng.IntN(len(modelKeys))] + `":` + randomValue(rng, depth)
}

func randomValue(rng *rand.Rand, depth int) string {
	simple := []string{"null", "true", `"usage"`, `"a\"{\\"`, "17", "0", "5", "-1", "2.5", `"\u00e9\n}"`}
	var parts []string
	switch kind := rng.IntN(6); {
	case depth == 0 || kind < 4:
		return simple[rng.IntN(len(simple))]
	case kind == 4:
		for range rng.IntN(4) {
			parts = append(parts, randomValue(rng, depth-1))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	for range rng.IntN(4) {
		parts = append(parts, randomMember(rng, depth-1))
	}
	return "{" + strings.Join(parts, " ,") + "}"
}

// A naiveUsage has the members of every usage of a body, of which the later one counts, as in a struct.
type naiveUsage map[string]any

func (n *naiveUsage) UnmarshalJSON(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if text[0] != '{' {
		return nil
	}
	return decoder.Decode((*map[string]any)(n))
}

// naive reads a chat completion.
func naive(t *testing.T, body string) (result usage.Result) {
	t.Helper()
	var root struct{ Usage naiveUsage }
	require.NoError(t, json.Unmarshal([]byte(body), &root))
	counts := root.Usage
	if counts == nil {
		return usage.Result{}
	}
	for key, count := range map[string]*int64{
		"prompt_tokens": &result.Usage.Input, "completion_tokens": &result.Usage.Output,
	} {
		number, is := counts[key].(json.Number)
		n, err := strconv.ParseInt(number.String(), 10, 64)
		switch {
		case counts[key] == nil:
		case !is || err != nil || n < 0:
			return usage.Result{Unread: usage.Malformed}
		default:
			*count = n
		}
	}
	result.State = usage.Final
	return result
}

func TestNothingIsKept(t *testing.T) {
	kept := func(r *usage.Reader) string { return fmt.Sprintf("%v", *r) }
	digits := strings.Trim(fmt.Sprint([]byte(canary)), "[]")
	require.Contains(t, fmt.Sprint(struct{ text [80]byte }{[80]byte([]byte(canary + strings.Repeat(" ", 80-len(canary))))}), digits)
	for _, s := range samples {
		t.Run(s.name, func(t *testing.T) {
			r := usage.NewReader(s.api, "")
			for _, chunk := range singly([]byte(s.body)) {
				r.Feed(chunk)
				require.NotContains(t, kept(r), digits)
			}
			require.NotContains(t, fmt.Sprintf("%+v", r.End(true)), canary)
		})
	}
	for _, of := range references {
		body := strings.ReplaceAll(maxima[of.api]+of.has+"}", `"x"`, `"`+canary+`"`)
		require.NotContains(t, fmt.Sprintf("%+v", *readCall(t, of.api, body)), canary)
	}
}

func TestReaderSays(t *testing.T) {
	const body = `{"usage":{"prompt_tokens":%s,"completion_tokens":2}}`
	t.Run("an encoding that it does not read", func(t *testing.T) {
		for _, encoding := range []string{"br", "zstd", "deflate", "gzip, gzip"} {
			require.Equal(t, usage.Result{Unread: usage.Encoded}, read(usage.Chat, encoding, []byte("x")))
		}
	})
	t.Run("gzip that is none, and gzip that was cut off", func(t *testing.T) {
		require.Equal(t, usage.Result{Unread: usage.Encoded}, read(usage.Chat, "gzip", []byte("no gzip at all")))
		body := zipped(t, anthropicStart+strings.Repeat(anthropicDelta, 10), true)
		r := usage.NewReader(usage.Anthropic, "gzip")
		r.Feed(body[:len(body)-20])
		result := r.End(false)
		require.Equal(t, usage.Partial, result.State)
		require.Equal(t, int64(25), result.Usage.Input)
	})
	t.Run("a count that is none", func(t *testing.T) {
		for _, count := range []string{"-1", "1.5", "1e3", `"1"`, "true", "[]", "{}", "99999999999999999999"} {
			require.Equal(t, usage.Result{Unread: usage.Malformed}, read(usage.Chat, "", fmt.Appendf(nil, body, count)), count)
		}
	})
	t.Run("a count that is none, before the usage", func(t *testing.T) {
		body := `{"context_management":{"applied_edits":[{"cleared_input_tokens":-1}]},"usage":{"input_tokens":1}}`
		require.Equal(t, usage.Result{Unread: usage.Malformed}, read(usage.Anthropic, "", []byte(body)))
	})
	t.Run("nothing of what is deeper than any API sends", func(t *testing.T) {
		for arrays, want := range map[int]usage.State{6: usage.Partial, 7: usage.Nothing, 8: usage.Nothing} {
			body := strings.Repeat("[", arrays) + `{"usageMetadata":{"promptTokenCount":1}}`
			require.Equal(t, want, read(usage.Gemini, "", []byte(body)).State)
		}
	})
	t.Run("counts that overflow when they are added", func(t *testing.T) {
		const most = "9223372036854775807"
		result := read(usage.Gemini, "", []byte(`{"usageMetadata":{"promptTokenCount":`+most+`,"toolUsePromptTokenCount":`+most+`}}`))
		require.Equal(t, int64(9223372036854775807), result.Usage.TokensIn())
	})
	t.Run("the end without the end of the last event", func(t *testing.T) {
		result := read(usage.Chat, "", []byte("data: "+fmt.Sprintf(body, "1")))
		require.Equal(t, usage.Result{State: usage.Final, Usage: usage.Usage{Input: 1, Output: 2}}, result)
	})
	t.Run("more cached than there was", func(t *testing.T) {
		result := read(usage.Chat, "", []byte(`{"usage":{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":9}}}`))
		require.Equal(t, usage.Usage{CacheRead: 9}, result.Usage)
	})
}

func TestCutOff(t *testing.T) {
	const usageChunk = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3}}\n\n"
	for _, of := range []struct {
		name string
		api  usage.API
		body string
		want usage.State
	}{
		{"a Gemini stream", usage.Gemini, "data: " + geminiChunk(5) + "\n\n", usage.Partial},
		{"a chat of running totals", usage.Chat, strings.Replace(usageChunk, "[]", "[{}]", 1), usage.Partial},
		{"a chat after its last chunk", usage.Chat, chatChunk + usageChunk, usage.Final},
		{"a message that came whole", usage.Anthropic, samples[0].body, usage.Final},
		{"a message that did not", usage.Anthropic, samples[0].body[:len(samples[0].body)-1], usage.Nothing},
		{"a stream after its stop", usage.Anthropic, samples[2].body, usage.Final},
	} {
		t.Run(of.name, func(t *testing.T) {
			r := usage.NewReader(of.api, "")
			r.Feed([]byte(of.body))
			require.Equal(t, of.want, r.End(false).State)
		})
	}
}

func TestDone(t *testing.T) {
	const counted = `{"usage":{"prompt_tokens":1,"input_tokens":1},"delta":{"stop_reason":"x"},"status":"completed","usageMetadata":{}}`
	for body, done := range map[string][]usage.API{
		"":                               nil,
		`{"usage":{}`:                    nil,
		`{"usage":null}`:                 nil,
		`{"usage":{"prompt_tokens":-1}}`: {usage.Anthropic},
		counted:                          {usage.Anthropic, usage.Chat, usage.Responses, usage.Gemini},
		"[" + counted:                    nil,
		"[" + counted + "]":              {usage.Gemini},
		"data: " + counted + "\n\n":      {usage.Responses},
		"data: [DONE]\n\n":               nil,
		"data: " + counted + "\n\ndata: [DONE]\n\n":                      {usage.Chat, usage.Responses},
		"data: " + counted + "\n\ndata: {\"type\":\"message_stop\"}\n\n": {usage.Anthropic, usage.Responses},
	} {
		for _, api := range []usage.API{usage.Anthropic, usage.Chat, usage.Responses, usage.Gemini} {
			r := usage.NewReader(api, "")
			for _, chunk := range singly([]byte(body)) {
				r.Feed(chunk)
			}
			require.Equal(t, slices.Contains(done, api), r.Done(), "%v: %s", api, body)
			r.End(true)
		}
	}
	for encoding, done := range map[string]bool{"": true, "br": false} {
		r := usage.NewReader(usage.Chat, encoding)
		r.Feed([]byte(counted))
		require.Equal(t, done, r.Done())
	}
}

func TestEvents(t *testing.T) {
	const end = "\n\n"
	want := usage.Usage{Input: 4, Output: 3}
	for _, of := range []struct{ name, body string }{
		{"one line", "data: {\"usage\":{\"input_tokens\":4,\"output_tokens\":3}}\n\n"},
		{"no space after the colon", "data:{\"usage\":{\"input_tokens\":4,\"output_tokens\":3}}\n\n"},
		{"data in several lines", "data: {\"a\":1,\ndata: \"usage\":{\ndata: \"input_tokens\":4,\ndata: \"output_tokens\":3}}\n\n"},
		{"comments, other fields and empty events", ": x\n\n\nid: 1\nretry: 5\nevent: usage\ndata\ndatas: {\n: y\ndata: {\"usage\":{\"input_tokens\":4,\nid\ndata: \"output_tokens\":3}}\n\n"},
		{"an event that is no JSON, one that is not ended", "data: [DONE\n\ndata: {\"usage\":{\n\ndata: {\"usage\":{\"input_tokens\":4,\"output_tokens\":3}}\n\ndata: {\"usage\":{\"input_tokens\":9"},
		{"totals of one that come twice", "data: {\"usage\":{\"input_tokens\":4,\"output_tokens\":2}}\n\ndata: {\"usage\":{\"output_tokens\":3}}\n\n"},
		{"a mark", "\xef\xbb\xbfdata: {\"usage\":{\"input_tokens\":4,\"output_tokens\":3}}\n\n"},
	} {
		for lines, ends := range map[string]string{"LF": "\n", "CRLF": "\r\n"} {
			t.Run(of.name+", "+lines, func(t *testing.T) {
				body := []byte(strings.ReplaceAll(anthropicDelta+of.body+anthropicDelta, "\n", ends))
				if strings.HasPrefix(of.body, "\xef") {
					body = []byte(strings.ReplaceAll(of.body, "\n", ends))
				}
				for cut := range body {
					require.Equal(t, want, read(usage.Anthropic, "", body[:cut], body[cut:]).Usage, "cut at %d", cut)
				}
				require.Equal(t, want, read(usage.Anthropic, "", singly(body)...).Usage)
			})
		}
	}
	t.Run("spaces before the first line are none of it, but before its field", func(t *testing.T) {
		for before, want := range map[string]int64{"\n": 4, "\r\n": 4, " \n": 4, " ": 0, "\t": 0, "\n\t": 0} {
			body := before + "data: {\"usage\":{\"input_tokens\":4}}" + end
			require.Equal(t, want, read(usage.Anthropic, "", []byte(body)).Usage.Input, "%q", before)
		}
	})
	t.Run("requests of tools are running totals too", func(t *testing.T) {
		delta := "data: {\"usage\":{\"server_tool_use\":{\"web_search_requests\":2}}}" + end
		require.Equal(t, requests(map[usage.Tool]int64{usage.WebSearch: 2}), read(usage.Anthropic, "", []byte(delta+delta)).Usage.Tools)
	})
}

func TestReaderMemory(t *testing.T) {
	t.Run("a chunk costs no allocation, whatever is in it", func(t *testing.T) {
		for _, text := range []string{
			anthropicDelta, chatChunk, strings.Repeat(`{"usage":`, 1000), strings.Repeat("[", 10_000),
			`{"` + strings.Repeat("k", 10_000), "data: " + geminiChunk(3) + "\n\n",
			`{"usage":{"input_tokens":` + strings.Repeat("9", 10_000),
		} {
			for _, from := range []usage.API{usage.Anthropic, usage.Gemini} {
				r, chunk := usage.NewReader(from, ""), []byte(text)
				r.Feed(chunk)
				require.Zero(t, testing.AllocsPerRun(100, func() { r.Feed(chunk) }), text[:9])
				r.End(true)
			}
		}
	})
	t.Run("a chunk is not kept or changed", func(t *testing.T) {
		r, body := usage.NewReader(usage.Anthropic, ""), []byte(samples[0].body)
		for i := range body {
			chunk := bytes.Clone(body[i : i+1])
			r.Feed(chunk)
			require.Equal(t, body[i], chunk[0])
			chunk[0] = 'x'
		}
		require.Equal(t, samples[0].want, r.End(true))
	})
}

func requests(by map[usage.Tool]int64) (all [11]int64) {
	for tool, n := range by {
		all[tool] = n
	}
	return all
}

func by(counts map[usage.Modality]int64) (all [4]int64) {
	for m, n := range counts {
		all[m] = n
	}
	return all
}

// read feeds the chunks of a body that was read to its end.
func read(api usage.API, encoding string, chunks ...[]byte) usage.Result {
	r := usage.NewReader(api, encoding)
	for _, chunk := range chunks {
		r.Feed(chunk)
	}
	return r.End(true)
}

// singly are the bytes of a body, each a chunk.
func singly(body []byte) (chunks [][]byte) {
	for i := range body {
		chunks = append(chunks, body[i:i+1])
	}
	return chunks
}

// zipped is the body compressed, flushed after each line as servers do with streams, or once.
func zipped(tb testing.TB, body string, flush bool) []byte {
	tb.Helper()
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	for line := range strings.Lines(body) {
		fmt.Fprint(w, line)
		if flush {
			require.NoError(tb, w.Flush())
		}
	}
	require.NoError(tb, w.Close())
	return compressed.Bytes()
}

func TestReader(t *testing.T) {
	for _, s := range samples {
		t.Run(s.name, func(t *testing.T) {
			body := []byte(s.body)
			require.Equal(t, s.want, read(s.api, "", body))
			require.Equal(t, s.want, read(s.api, "identity", singly(body)...))
			for cut := range body {
				require.Equal(t, s.want, read(s.api, "", body[:cut], body[cut:]), "cut at %d", cut)
			}
		})
		t.Run(s.name+", compressed", func(t *testing.T) {
			for _, flush := range []bool{false, true} {
				body := zipped(t, s.body, flush)
				require.Equal(t, s.want, read(s.api, "gzip", body))
				require.Equal(t, s.want, read(s.api, "X-GZIP", singly(body)...))
				for cut := range body {
					require.Equal(t, s.want, read(s.api, "gzip", body[:cut], body[cut:]), "cut at %d", cut)
				}
			}
		})
	}
}

// FuzzReader protects readers from an answer that depends on how a body was cut: byte by byte nothing is skipped ahead.
func FuzzReader(f *testing.F) {
	for _, s := range samples {
		f.Add(uint8(s.api), []byte(s.body), uint16(len(s.body)/2))
	}
	for _, body := range []string{
		"data: {\"usage\":\ndata: {\"prompt_tokens\":1}}\n\n", "data: {\"usage\"\ndata: :{\"prompt_tokens\":1}}\n\n",
		"data: {\"us\\u0061ge\":{\"prompt_tokens\":1}}\n\n", "\xef\xbb\xbfdata:{\"usage\":{\"prompt_tokens\":1}}\r\r",
		"data: {\"usage\":\nevent: x\ndata: {\"prompt_tokens\":1}}\n\n", " data: {\"usage\":{\"prompt_tokens\":1}}\n\n",
		"data: {}\n\ndata: {\"usage\":\n: x\r\ndata: {\"prompt_tokens\":1}}\r\n\n\n\ndata: 1",
		"data: {\"usage\":\n\r\r\ndata: {\"prompt_tokens\":1}}\n\r\r\n", "data: {\"usage\": {\n\r\r\ndata: \"prompt_tokens\":1}}\n\n",
		"data: {\"choices\":[{\"finish_reason\":\"length\"}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\n",
		`{"usage":{"server_tool_use":{"a":0,"b":1,"web_search_requests":2}}}`,
		"data: ]\n\ndata: }\n\ndata: {\"usage\":{\"prompt_tokens\":1}}\n\n",
		"data: {\"a\":\"a vacuum\"}\n\ndata: {\"usage\":{\"prompt_tokens\":1}}\n\n",
		strings.Repeat(chatChunk, 9) + "data: {\"usage\" : {\"prompt_tokens\":1}}\n\n",
		strings.Repeat("data: {\"a\":{}}\r\n\r\n", 9) + "data: {\"us\\u0061ge\":{\"prompt_tokens\":1}}\n\n",
	} {
		f.Add(uint8(usage.Chat), []byte(body), uint16(len(body)/2))
	}
	f.Fuzz(func(t *testing.T, api uint8, body []byte, cut uint16) {
		from := usage.Anthropic + usage.API(api%4)
		at := min(int(cut), len(body))
		want := read(from, "", singly(body)...)
		require.Equal(t, want, read(from, "", body))
		require.Equal(t, want, read(from, "", body[:at], body[at:]))
		counts := want.Usage
		for _, n := range []int64{counts.Input, counts.TokensIn(), counts.Output, counts.Reasoning} {
			require.GreaterOrEqual(t, n, int64(0))
		}
		read(from, "gzip", body[:at], body[at:]) // it must not panic
	})
}
