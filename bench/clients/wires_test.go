package clients_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// responses is OpenAI's Responses.
var responses = wire{
	read: func(_ string, body object, a *ask) {
		a.model, a.most = text(body, "model"), number(body, "max_output_tokens")
		a.streamed, _ = body["stream"].(bool)
		a.thinks = body["reasoning"] != nil
		a.tools = named(body)
		for _, item := range list(body, "input") {
			a.tools = append(a.tools, named(item)...) // Codex has them in an item
			if kind := text(item, "type"); kind == "function_call_output" || kind == "custom_tool_call_output" {
				a.results++
			}
		}
	},
	whole: func(a *ask, said answer) any { return response(a, said, statusOf(said), items(a, said)) },
	stream: func(a *ask, said answer, send func(string, any)) {
		sequence := 0
		event := func(kind string, more object) {
			more["type"], more["sequence_number"] = kind, sequence
			sequence++
			send(kind, more)
		}
		event("response.created", object{"response": response(a, said, "in_progress", []object{})})
		for i, item := range items(a, said) {
			streamItem(i, item, said, event)
		}
		kind := "response.completed"
		if said.cut {
			kind = "response.incomplete"
		}
		event(kind, object{"response": response(a, said, statusOf(said), items(a, said))})
	},
	failed: openaiFailed,
}

// named returns the names of tools, also of those within others.
func named(of object) (names []string) {
	for _, t := range list(of, "tools") {
		names = append(append(names, text(t, "name")), named(t)...)
	}
	return names
}

func streamItem(i int, item object, said answer, event func(string, object)) {
	empty := maps.Clone(item)
	id := item["id"]
	switch item["type"] {
	case "message":
		empty["content"], empty["status"] = []object{}, "in_progress"
		event("response.output_item.added", object{"output_index": i, "item": empty})
		part := object{"type": "output_text", "text": "", "annotations": []any{}}
		event("response.content_part.added", object{"output_index": i, "item_id": id, "content_index": 0, "part": part})
		at := object{"output_index": i, "item_id": id, "content_index": 0, "logprobs": []any{}}
		event("response.output_text.delta", with(at, "delta", said.text))
		event("response.output_text.done", with(at, "text", said.text))
		part = object{"type": "output_text", "text": said.text, "annotations": []any{}}
		event("response.content_part.done", object{"output_index": i, "item_id": id, "content_index": 0, "part": part})
	case "function_call":
		empty["arguments"], empty["status"] = "", "in_progress"
		event("response.output_item.added", object{"output_index": i, "item": empty})
		at := object{"output_index": i, "item_id": id}
		event("response.function_call_arguments.delta", with(at, "delta", item["arguments"]))
		event("response.function_call_arguments.done", with(at, "arguments", item["arguments"]))
	default:
		empty["summary"] = []object{}
		event("response.output_item.added", object{"output_index": i, "item": empty})
	}
	event("response.output_item.done", object{"output_index": i, "item": item})
}

// with is an object with a member more.
func with(o object, key string, value any) object {
	o = maps.Clone(o)
	o[key] = value
	return o
}

func statusOf(said answer) string {
	if said.cut {
		return "incomplete"
	}
	return "completed"
}

func response(a *ask, said answer, status string, output []object) object {
	r := object{
		"id": fmt.Sprintf("resp_%d", a.input), "object": "response", "created_at": 1, "status": status, "model": a.model,
		"output": output, "error": nil, "incomplete_details": nil, "tools": []any{}, "tool_choice": "auto",
		"parallel_tool_calls": true, "metadata": object{}, "instructions": nil, "temperature": 1, "top_p": 1,
	}
	if status == "in_progress" {
		return r
	}
	if said.cut {
		r["incomplete_details"] = object{"reason": "max_output_tokens"}
	}
	cached := int64(0)
	if a.results > 0 {
		cached = a.input / 2
	}
	r["usage"] = object{
		"input_tokens": a.input, "input_tokens_details": object{"cached_tokens": cached},
		"output_tokens": said.tokens(), "output_tokens_details": object{"reasoning_tokens": said.thought()},
		"total_tokens": a.input + said.tokens(),
	}
	return r
}

func items(a *ask, said answer) (all []object) {
	id := fmt.Sprintf("%d_%d", a.results, a.input)
	if said.thinking != "" {
		all = append(all, object{
			"type": "reasoning", "id": "rs_" + id, "summary": []object{{"type": "summary_text", "text": "It thought."}},
			"encrypted_content": said.thinking,
		})
	}
	if said.text != "" {
		all = append(all, object{
			"type": "message", "id": "msg_" + id, "role": "assistant", "status": "completed",
			"content": []object{{"type": "output_text", "text": said.text, "annotations": []any{}}},
		})
	}
	for i, t := range said.tools {
		if t.name == "exec" { // it takes a program, and no JSON
			all = append(all, object{
				"type": "custom_tool_call", "id": fmt.Sprintf("ctc_%s_%d", id, i), "call_id": fmt.Sprintf("call_%s_%d", id, i),
				"name": t.name, "namespace": "functions", "input": t.args["input"], "status": "completed",
			})
			continue
		}
		call := object{
			"type": "function_call", "id": fmt.Sprintf("fc_%s_%d", id, i), "call_id": fmt.Sprintf("call_%s_%d", id, i),
			"name": t.name, "arguments": t.json(), "status": "completed",
		}
		if t.name == "spawn_agent" {
			call["namespace"] = "collaboration"
		}
		all = append(all, call)
	}
	return all
}

// chat is OpenAI's Chat Completions.
var chat = wire{
	done: "data: [DONE]\n\n",
	read: func(_ string, body object, a *ask) {
		a.model, a.most = text(body, "model"), number(body, "max_completion_tokens")
		if a.most == 0 {
			a.most = number(body, "max_tokens")
		}
		a.streamed, _ = body["stream"].(bool)
		a.usage, _ = inner(body, "stream_options")["include_usage"].(bool)
		for _, t := range list(body, "tools") {
			a.tools = append(a.tools, text(inner(t, "function"), "name"))
		}
		for _, m := range list(body, "messages") {
			if text(m, "role") == "tool" {
				a.results++
			}
		}
	},
	whole: func(a *ask, said answer) any {
		m := object{"role": "assistant", "content": said.text, "refusal": nil}
		if len(said.tools) > 0 {
			m["tool_calls"] = toolCalls(a, said)
		}
		c := completion(a, "chat.completion")
		c["choices"] = []object{{"index": 0, "message": m, "finish_reason": finishOf(said), "logprobs": nil}}
		c["usage"] = chatUsage(a, said)
		return c
	},
	stream: func(a *ask, said answer, send func(string, any)) {
		chunk := func(delta object, finish any) {
			c := completion(a, "chat.completion.chunk")
			c["choices"] = []object{{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": nil}}
			send("", c)
		}
		chunk(object{"role": "assistant", "content": said.text}, nil)
		for i, t := range toolCalls(a, said) {
			t["index"] = i
			chunk(object{"tool_calls": []object{t}}, nil)
		}
		chunk(object{}, finishOf(said))
		if a.usage {
			c := completion(a, "chat.completion.chunk")
			c["choices"], c["usage"] = []object{}, chatUsage(a, said)
			send("", c)
		}
	},
	failed: openaiFailed,
}

func completion(a *ask, kind string) object {
	return object{"id": fmt.Sprintf("chatcmpl-%d", a.input), "object": kind, "created": 1, "model": a.model}
}

func chatUsage(a *ask, said answer) object {
	return object{
		"prompt_tokens": a.input, "completion_tokens": said.tokens(), "total_tokens": a.input + said.tokens(),
		"prompt_tokens_details":     object{"cached_tokens": 0},
		"completion_tokens_details": object{"reasoning_tokens": said.thought()},
	}
}

func finishOf(said answer) string {
	switch {
	case said.cut:
		return "length"
	case len(said.tools) > 0:
		return "tool_calls"
	}
	return "stop"
}

func toolCalls(a *ask, said answer) (all []object) {
	for i, t := range said.tools {
		all = append(all, object{
			"id": fmt.Sprintf("call_%d_%d_%d", a.results, a.input, i), "type": "function",
			"function": object{"name": t.name, "arguments": t.json()},
		})
	}
	return all
}

func openaiFailed(status int) any {
	kind := map[int]string{429: "rate_limit_exceeded"}[status]
	return object{"error": object{"type": "server_error", "code": kind, "message": "not now", "param": nil}}
}

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

// An answer is what a model says.
type answer struct {
	thinking, text string
	tools          []tool
	cut            bool // by the request's maximum
}

// A tool is a call of one.
type tool struct {
	name string
	args object
}

func (t tool) json() string {
	text, err := json.Marshal(t.args)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// tokens are those that the answer is billed for.
func (a answer) tokens() int64 { return a.thought() + a.said() }

func (a answer) thought() int64 { return tokensOf(a.thinking) }

func (a answer) said() int64 {
	n := tokensOf(a.text)
	for _, t := range a.tools {
		n += tokensOf(t.name + t.json())
	}
	return n
}

// within returns the answer as the request's maximum has it, and whether it is cut.
func (a answer) within(most int64) (answer, bool) {
	if most == 0 || a.tokens() <= most {
		return a, false
	}
	a.tools = nil
	for _, part := range []*string{&a.thinking, &a.text} {
		*part = (*part)[:min(int64(len(*part)), 4*most)]
		most -= tokensOf(*part)
	}
	return a, true
}

// commands are the tools that clients have, the first that a request has is called. Each does next to nothing.
var commands = []struct {
	name string
	args func(n int) object
}{
	{"look", func(n int) object { return object{"number": n} }},
	{"Bash", func(n int) object { return object{"command": command(n), "description": "Say a number"} }},
	{"exec_command", func(n int) object { return object{"cmd": command(n)} }},
	{"shell_command", func(n int) object { return object{"command": command(n)} }},
	{"exec", func(n int) object {
		return object{"input": fmt.Sprintf(`text(await tools.exec_command({cmd: %q}))`, command(n))}
	}},
	{"shell", func(n int) object { return object{"command": []string{"sh", "-c", command(n)}} }},
	{"run_shell_command", func(n int) object { return object{"command": command(n), "description": "Say a number"} }},
}

func command(n int) string { return fmt.Sprintf("echo this is step %d", n) }

// starters are the tools by which clients start a sub-agent.
var starters = []struct {
	name string
	args func(n int) object
}{
	{"Agent", func(n int) object {
		return object{
			"description": fmt.Sprintf("Part %d", n), "subagent_type": "general-purpose", "run_in_background": false,
			"prompt": task(n),
		}
	}},
	{"invoke_agent", func(n int) object { return object{"agent_name": "generalist", "prompt": task(n)} }},
	{"spawn_agent", func(n int) object {
		return object{"task_name": fmt.Sprintf("part_%d", n), "message": task(n), "fork_turns": "none"}
	}},
}

func task(n int) string { return fmt.Sprintf("Look at part %d, please.", n) }

// next is what the model of a request says.
func (u *upstream) next(a *ask) answer {
	if a.form != nil {
		text, _ := json.Marshal(filled(a.form))
		return answer{text: string(text)}
	}
	said := answer{text: words(a.results, 24) + answerCanary}
	if a.thinks {
		said.thinking = words(a.results, 40)
	}
	if a.main && a.most > 0 && a.most < u.script.fills {
		said.text = words(a.results, int(u.script.fills)) + answerCanary
	}
	said.tools = u.script.calls(a)
	return said
}

// calls are the tools that the model calls.
func (s script) calls(a *ask) (all []tool) {
	turns := s.turns
	if !a.main {
		turns = min(3, turns)
	}
	if a.main && a.results == 0 && s.agents > 0 {
		for _, start := range starters {
			if slices.Contains(a.tools, start.name) {
				for n := range s.agents {
					all = append(all, tool{start.name, start.args(n)})
				}
				return all
			}
		}
	}
	for _, c := range commands {
		if a.results < turns && slices.Contains(a.tools, c.name) {
			return []tool{{c.name, c.args(a.results)}}
		}
	}
	return nil
}

// words are so many that do not repeat: some clients take repetition for a loop.
func words(seed, n int) string {
	var s strings.Builder
	for i := range n {
		fmt.Fprintf(&s, "w%x ", (seed*1009+i*31)*2654435761%0xfffff)
	}
	return s.String()
}

// filled returns something that a schema of JSON takes.
func filled(schema object) any {
	switch kind := strings.ToLower(text(schema, "type")); kind {
	case "object":
		o := object{}
		for name, of := range inner(schema, "properties") {
			if of, ok := of.(object); ok {
				o[name] = filled(of)
			}
		}
		return o
	case "array":
		return []any{}
	case "integer", "number":
		return 10
	case "boolean":
		return false
	}
	return "something"
}

// list is a member that is a list of objects.
func list(of object, name string) (all []object) {
	elements, _ := of[name].([]any)
	for _, e := range elements {
		if o, ok := e.(object); ok {
			all = append(all, o)
		}
	}
	return all
}

func text(of object, name string) string {
	s, _ := of[name].(string)
	return s
}

func number(of object, name string) int64 {
	n, _ := of[name].(float64)
	return int64(n)
}

func inner(of object, name string) object {
	o, _ := of[name].(object)
	return o
}
