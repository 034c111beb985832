package clients_test

import "fmt"

// anthropic is Messages.
var anthropic = wire{
	read: func(_ string, body object, a *ask) {
		a.model, a.most = text(body, "model"), number(body, "max_tokens")
		a.streamed, _ = body["stream"].(bool)
		kind := text(inner(body, "thinking"), "type")
		a.thinks = kind == "enabled" || kind == "adaptive"
		for _, t := range list(body, "tools") {
			a.tools = append(a.tools, text(t, "name"))
		}
		for _, m := range list(body, "messages") {
			for _, c := range list(m, "content") {
				if text(c, "type") == "tool_result" {
					a.results++
				}
			}
		}
	},
	whole: func(a *ask, said answer) any {
		m := message(a)
		m["content"], m["stop_reason"] = blocks(a, said), stopOf(said)
		m["usage"] = anthropicUsage(a, said.tokens())
		return m
	},
	stream: func(a *ask, said answer, send func(string, any)) {
		m := message(a)
		m["content"], m["stop_reason"], m["usage"] = []any{}, nil, anthropicUsage(a, 1)
		send("message_start", object{"type": "message_start", "message": m})
		for i, block := range blocks(a, said) {
			empty, deltas := opened(block)
			send("content_block_start", object{"type": "content_block_start", "index": i, "content_block": empty})
			for _, d := range deltas {
				send("content_block_delta", object{"type": "content_block_delta", "index": i, "delta": d})
			}
			send("content_block_stop", object{"type": "content_block_stop", "index": i})
		}
		send("message_delta", object{
			"type": "message_delta", "delta": object{"stop_reason": stopOf(said), "stop_sequence": nil},
			"usage": object{"output_tokens": said.tokens()},
		})
		send("message_stop", object{"type": "message_stop"})
	},
	failed: func(status int) any {
		kind := map[int]string{429: "rate_limit_error", 503: "api_error", 529: "overloaded_error"}[status]
		return object{"type": "error", "error": object{"type": kind, "message": "not now"}}
	},
}

func message(a *ask) object {
	return object{
		"id": fmt.Sprintf("msg_%d", a.input), "type": "message", "role": "assistant", "model": a.model, "stop_sequence": nil,
	}
}

// anthropicUsage has a third of the input read from a cache, once the conversation has begun.
func anthropicUsage(a *ask, output int64) object {
	read := int64(0)
	if a.results > 0 {
		read = a.input / 3
	}
	return object{
		"input_tokens": a.input - 2*read, "cache_read_input_tokens": read, "cache_creation_input_tokens": read,
		"output_tokens": output, "service_tier": "standard",
	}
}

func stopOf(said answer) string {
	switch {
	case said.cut:
		return "max_tokens"
	case len(said.tools) > 0:
		return "tool_use"
	}
	return "end_turn"
}

func blocks(a *ask, said answer) (all []object) {
	if said.thinking != "" {
		all = append(all, object{"type": "thinking", "thinking": said.thinking, "signature": "c2lnbmF0dXJl"})
	}
	if said.text != "" {
		all = append(all, object{"type": "text", "text": said.text})
	}
	for i, t := range said.tools {
		all = append(all, object{
			"type": "tool_use", "id": fmt.Sprintf("toolu_%d_%d_%d", a.results, a.input, i), "name": t.name, "input": t.args,
		})
	}
	return all
}

// opened returns a block as a stream begins it, and what it adds.
func opened(block object) (empty object, deltas []object) {
	switch block["type"] {
	case "thinking":
		return object{"type": "thinking", "thinking": "", "signature": ""}, []object{
			{"type": "thinking_delta", "thinking": block["thinking"]},
			{"type": "signature_delta", "signature": block["signature"]},
		}
	case "text":
		return object{"type": "text", "text": ""}, []object{{"type": "text_delta", "text": block["text"]}}
	}
	args, _ := block["input"].(object)
	return object{"type": "tool_use", "id": block["id"], "name": block["name"], "input": object{}}, []object{
		{"type": "input_json_delta", "partial_json": tool{args: args}.json()},
	}
}
