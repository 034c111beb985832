package usage_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/watchdoghttp/internal/usage"
)

// places are where the fields of the golden lists stand in a request: after "%s" for the type, if there is one, comes
// the field.
var places = map[usage.API]map[string]string{
	usage.Anthropic: {
		"body":    `{"model":"m","max_tokens":9,"messages":[],%s}`,
		"message": `{"model":"m","max_tokens":9,"messages":[{"role":%q,%s}]}`,
		"block":   `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":%q,%s}]}]}`,
		"tool":    `{"model":"m","max_tokens":9,"messages":[],"tools":[{"type":%q,%s}]}`,
	},
	usage.Chat: {
		"body":    `{"model":"m","max_tokens":9,"messages":[],%s}`,
		"message": `{"model":"m","max_tokens":9,"messages":[{"role":%q,%s}]}`,
		"block":   `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":%q,%s}]}]}`,
		"tool":    `{"model":"m","max_tokens":9,"messages":[],"tools":[{"type":%q,%s}]}`,
	},
	usage.Responses: {
		"body":    `{"model":"m","max_output_tokens":9,"input":"x",%s}`,
		"compact": `{"model":"m","input":"x",%s}`,
		"item":    `{"model":"m","max_output_tokens":9,"input":[{"type":%q,%s}]}`,
		"block":   `{"model":"m","max_output_tokens":9,"input":[{"role":"user","content":[{"type":%q,%s}]}]}`,
		"tool":    `{"model":"m","max_output_tokens":9,"input":"x","tools":[{"type":%q,%s}]}`,
	},
	usage.Gemini: {
		"body":     `{"contents":[],"generationConfig":{"maxOutputTokens":9},%s}`,
		"config":   `{"contents":[],"generationConfig":{"maxOutputTokens":9,%s}}`,
		"thinking": `{"contents":[],"generationConfig":{"maxOutputTokens":9,"thinkingConfig":{%s}}}`,
		"content":  `{"contents":[{%s}],"generationConfig":{"maxOutputTokens":9}}`,
		"part":     `{"contents":[{"parts":[{%s}]}],"generationConfig":{"maxOutputTokens":9}}`,
		"response": `{"contents":[{"parts":[{"functionResponse":{%s}}]}],"generationConfig":{"maxOutputTokens":9}}`,
		"blob":     `{"contents":[{"parts":[{"inlineData":{%s}}]}],"generationConfig":{"maxOutputTokens":9}}`,
		"function": `{"contents":[],"tools":[{"functionDeclarations":[{%s}]}],"generationConfig":{"maxOutputTokens":9}}`,
		"tool":     `{"contents":[],"tools":[{%s}],"generationConfig":{"maxOutputTokens":9}}`,
	},
}

// TestFields has every field that the SDKs of the vendors can send pass, but those that name what is not in the body.
func TestFields(t *testing.T) {
	for api, file := range map[usage.API]string{
		usage.Anthropic: "anthropic", usage.Chat: "chat", usage.Responses: "responses", usage.Gemini: "gemini",
	} {
		text, err := os.ReadFile("testdata/fields_" + file + ".txt")
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(line)
			if words[0] == "#" {
				continue
			}
			t.Run(file+" "+strings.TrimSpace(line), func(t *testing.T) { checkField(t, api, words) })
		}
	}
}

func checkField(t *testing.T, api usage.API, words []string) {
	t.Helper()
	name, refused := strings.CutPrefix(words[len(words)-1], "!")
	place := places[api][words[0]]
	require.NotEmpty(t, place)
	field := fmt.Sprintf("%q:%s", name, valueOf(name))
	if strings.Contains(strings.Split(place, "%")[0], `"`+name+`":`) && len(words) == 2 {
		return // it is in each of these requests
	}
	if name == "type" {
		field = `"name":"x"` // the type itself passes
	}
	body := fmt.Sprintf(place, field)
	if len(words) == 3 {
		body = fmt.Sprintf(place, words[1], field)
		if name == "role" && words[0] == "item" {
			body = strings.Replace(body, `"`+words[1]+`"`, `"message"`, 1)
		}
	}
	call := readCall(t, api, body)
	if words[0] == "compact" {
		call = readAt(t, "/v1/responses/compact", body)
	}
	_, err := call.Bound(usage.Maximum{}, nil)
	require.Empty(t, call.Unknown(), body)
	if refused {
		var why *usage.Unbounded
		require.ErrorAs(t, err, &why, body)
		require.NotEmpty(t, why.Part)
		return
	}
	require.NoError(t, err, body)
}

// valueOf is a value that a field can have.
func valueOf(name string) string {
	switch name {
	case "max_tokens", "max_completion_tokens", "max_output_tokens", "n", "candidateCount", "max_uses":
		return "3"
	case "image_url", "file_data":
		return `"data:image/png;base64,AAAA"`
	case "parts", "tools", "functions", "functionDeclarations", "systemInstruction":
		return "[]"
	}
	return `"x"`
}
