package clients_test

import "strings"

// gemini is generateContent.
var gemini = wire{
	read: func(path string, body object, a *ask) {
		name, verb, _ := strings.Cut(strings.TrimPrefix(path, "/v1beta/models/"), ":")
		a.model, a.streamed = name, verb == "streamGenerateContent"
		a.most = number(inner(body, "generationConfig"), "maxOutputTokens")
		if form := inner(inner(body, "generationConfig"), "responseJsonSchema"); form != nil {
			a.form = form
		}
		a.thinks, _ = inner(inner(body, "generationConfig"), "thinkingConfig")["includeThoughts"].(bool)
		for _, t := range list(body, "tools") {
			for _, f := range list(t, "functionDeclarations") {
				a.tools = append(a.tools, text(f, "name"))
			}
		}
		for _, c := range list(body, "contents") {
			for _, p := range list(c, "parts") {
				if p["functionResponse"] != nil {
					a.results++
				}
			}
		}
	},
	whole: func(a *ask, said answer) any { return generated(a, said, parts(said), true) },
	stream: func(a *ask, said answer, send func(string, any)) {
		all := parts(said)
		for i, p := range all {
			send("", generated(a, said, []object{p}, i == len(all)-1))
		}
	},
	failed: func(status int) any {
		kind := map[int]string{429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}[status]
		return object{"error": object{"code": status, "message": "not now", "status": kind}}
	},
}

func generated(a *ask, said answer, parts []object, last bool) object {
	candidate := object{"index": 0, "content": object{"role": "model", "parts": parts}}
	if last {
		candidate["finishReason"] = "STOP"
		if said.cut {
			candidate["finishReason"] = "MAX_TOKENS"
		}
	}
	return object{
		"candidates": []object{candidate}, "modelVersion": a.model, "responseId": "r",
		"usageMetadata": object{
			"promptTokenCount": a.input, "candidatesTokenCount": said.said(), "thoughtsTokenCount": said.thought(),
			"totalTokenCount": a.input + said.tokens(),
		},
	}
}

func parts(said answer) (all []object) {
	if said.thinking != "" {
		all = append(all, object{"text": said.thinking, "thought": true})
	}
	if said.text != "" {
		all = append(all, object{"text": said.text})
	}
	for _, t := range said.tools {
		all = append(all, object{"functionCall": object{"name": t.name, "args": t.args}, "thoughtSignature": "c2lnbmF0dXJl"})
	}
	if len(all) == 0 {
		all = []object{{"text": ""}}
	}
	return all
}
