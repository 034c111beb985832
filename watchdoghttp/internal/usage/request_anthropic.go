package usage

// anthropicBody is the body of a request to Anthropic Messages. The budget of thinking is part of max_tokens, but where
// it is larger, which only interleaved thinking may have: then it comes on top.
var anthropicBody = fields(text,
	"temperature", "top_k", "top_p", "metadata", "stop_sequences", "tool_choice", "service_tier", "cache_control",
	"inference_geo", "speed", "anthropic_version", "anthropic_beta", "betas", "output_format", "diagnostics",
).with(object{
	"model":      model,
	"max_tokens": maxOutput("max_tokens"),
	"stream":     func(r *request, v value) { r.call.Stream = v.isTrue() },
	"system":     content(anthropicBlocks),
	"messages":   each(anthropicMessage),
	"tools":      each(anthropicTool),
	"thinking":   anthropicThinking,
	"container":  refers(Reference, "container"),
	"mcp_servers": func(r *request, v value) {
		if !v.isNothing() {
			r.serverTool("mcp_servers", -1)
		}
	},
	"output_config": inside(func() object { return fields(text, "effort", "format", "task_budget") }, nil),
})

func anthropicThinking(r *request, v value) {
	if budget := memberNumber(v, "budget_tokens"); budget >= 0 {
		r.call.extraOutput = budget
	}
}

func anthropicMessage(r *request, v value) {
	r.part()
	r.object(object{"role": text, "content": content(anthropicBlocks)}, v, nil)
}

// anthropicTool takes a tool. Only the host's own are all in the body: what the API defines is input that it adds.
func anthropicTool(r *request, v value) {
	r.part()
	kinds := map[string]kind{"custom": {has: fields(text, "type", "name", "description", "input_schema", "cache_control",
		"strict", "eager_input_streaming", "defer_loading", "allowed_callers", "input_examples")}}
	if v[0] != '{' {
		r.unknown("tools")
		return
	}
	name := "custom"
	v.members(func(key string, member value) {
		if key == "type" && !member.isNothing() {
			name = member.text()
		}
	})
	if name != "custom" {
		r.serverTool(name, memberNumber(v, "max_uses"))
		return
	}
	r.object(kinds[name].has, v, nil)
}

// anthropicBlocks are the types of content. It is a function because tools have results that are content.
func anthropicBlocks() map[string]kind {
	return map[string]kind{
		"text":            {has: fields(text, "type", "text", "cache_control", "citations")},
		"mid_conv_system": {has: object{"type": text, "cache_control": text, "content": content(anthropicBlocks)}},
		"tool_use":        {has: fields(text, "type", "id", "name", "input", "cache_control", "caller")},
		"tool_result": {has: fields(text, "type", "tool_use_id", "is_error", "cache_control").
			with(object{"content": content(anthropicBlocks)})},
		"search_result": {has: fields(text, "type", "source", "title", "cache_control", "citations").
			with(object{"content": content(anthropicBlocks)})},
		"document": {has: fields(text, "type", "title", "context", "cache_control", "citations").
			with(object{"source": anthropicSource})},
		"image": {why: Media}, "thinking": {why: Opaque}, "redacted_thinking": {why: Opaque}, "compaction": {why: Opaque},
		"container_upload": {why: Reference}, "server_tool_use": {why: ServerTool}, "mcp_tool_use": {why: ServerTool},
		"web_search_tool_result": {why: ServerTool}, "web_fetch_tool_result": {why: ServerTool},
		"code_execution_tool_result": {why: ServerTool}, "bash_code_execution_tool_result": {why: ServerTool},
		"text_editor_code_execution_tool_result": {why: ServerTool}, "tool_search_tool_result": {why: ServerTool},
		"mcp_tool_result": {why: ServerTool},
	}
}

// anthropicSource takes the source of a document.
func anthropicSource(r *request, v value) {
	r.typed(map[string]kind{
		"text":    {has: fields(text, "type", "media_type", "data")},
		"content": {has: object{"type": text, "content": content(anthropicBlocks)}},
		"base64":  {why: Media}, "url": {why: Reference}, "file": {why: Reference},
	}, "", v)
}
