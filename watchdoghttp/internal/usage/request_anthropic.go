package usage

import "bytes"

// The tables of Anthropic Messages. The budget of thinking is part of max_tokens, but where it is larger, which only
// interleaved thinking may have: then it comes on top.
var (
	anthropicBody, anthropicTurn, anthropicFunction object
	anthropicBlocks, anthropicSources               map[string]kind
)

func makeAnthropic() {
	anthropicBody = fields(text, `
		tool_choice speed anthropic_version anthropic_beta betas output_format compaction
	`).with(fields(free, `
		temperature top_k top_p metadata stop_sequences service_tier cache_control inference_geo diagnostics
		fallback_credit_token user_profile_id billing_policy
	`)).with(object{
		"model":              model,
		"max_tokens":         maxOutput,
		"stream":             stream,
		"system":             head(anthropicContent),
		"messages":           each(anthropicMessage),
		"tools":              head(each(anthropicTool)),
		"thinking":           anthropicThinking,
		"container":          refers(Reference),
		"mcp_servers":        refers(ServerTool),
		"context_management": anthropicManagement,
		"thread":             anthropicThread,
		"fallbacks":          anthropicFallbacks,
		"output_config":      inside(fields(text, "effort format").with(object{"task_budget": told})),
	})
	anthropicTurn = fields(text, "role output_config clear_at").with(object{"content": anthropicContent})
	anthropicFunction = fields(text, `
		type name description input_schema strict defer_loading allowed_callers input_examples
	`).with(fields(free, "cache_control eager_input_streaming"))
	anthropicSources = map[string]kind{
		"text":    block("media_type data"),
		"content": block("").with(object{"content": anthropicContent}),
		"base64":  block("media_type").with(object{"data": mediaData}),
		"url":     {why: Reference}, "file": {why: Reference},
	}
}

func anthropicThinking(r *request, v value) {
	text(r, v)
	if budget := memberNumber(v, "budget_tokens"); budget >= 0 {
		r.call.extraOutput, r.call.thinks = budget, budget
	}
}

// told is a field whose value the model is told, and which can be another one in each call.
func told(r *request, v value) {
	name := r.name
	r.at.note(name, nil)
	head(func(r *request, v value) { r.part(func() { r.at.put(name, v) }) })(r, v)
}

// anthropicManagement takes what the API does with a long conversation. To compact it is a call of its own before the
// call: the usage has it apart.
func anthropicManagement(r *request, v value) {
	text(r, v)
	r.call.managed = !v.isNothing()
	if bytes.Contains(v, []byte(`"compact`)) {
		r.call.rounds++
	}
}

// anthropicFallbacks takes the models that are asked, one after the other, where the first one refuses.
func anthropicFallbacks(r *request, v value) {
	text(r, v)
	if v[0] == '[' {
		v.elements(func(value) { r.call.rounds++ })
	}
}

// anthropicThread takes a conversation that the API holds. Where the request goes on with one it is not in the body.
func anthropicThread(r *request, v value) {
	text(r, v)
	if !v.isNothing() && memberText(v, "type") != "create" {
		r.blame(Reference, "thread")
	}
}

// anthropicMessage takes a message. The model can be shown one of the system's own only until the user says something.
func anthropicMessage(r *request, v value) {
	clears := memberText(v, "clear_at")
	r.brief = clears != "" && clears != "never"
	r.message(memberText(v, "role"), func() { r.object(anthropicTurn, v) })
	r.brief = false
}

// anthropicTool takes a tool. Only the host's own are all in the body: what the API defines is input that it adds.
func anthropicTool(r *request, v value) {
	r.call.Parts++
	r.tooled = true
	name := typeOf(v, "custom")
	r.part(func() {
		if name != "custom" {
			r.at.put("", v)
			r.apiTool(name, memberNumber(v, "max_uses"))
			return
		}
		r.object(anthropicFunction, v)
		r.loadedLater(v)
	})
}

// anthropicAddition takes a tool that comes in the middle of a conversation: it is named, or is in the body.
func anthropicAddition(r *request, v value) {
	text(r, v)
	r.at.loads = memberText(v, "name")
	if definition := memberOf(v, "definition"); !definition.isNothing() {
		anthropicTool(r, definition)
	}
}

// anthropicContent is a field of content. Some types of it have content themselves.
func anthropicContent(r *request, v value) { r.content("text", anthropicBlocks, v) }

// block is a block that is no more than its members.
func block(names string) kind {
	return kind{has: fields(text, names).with(fields(free, "type cache_control"))}
}

func makeBlocks() {
	nested := object{"content": anthropicContent}
	ofAPI := block("tool_use_id content caller is_error").as(found)
	anthropicBlocks = map[string]kind{
		"text":            block("citations").with(object{"text": anthropicText}),
		"mid_conv_system": block("").with(nested),
		"tool_use":        block("id name input caller toolset_name"),
		"tool_result":     block("tool_use_id is_error toolset_name").with(nested).as(result),
		"search_result":   block("source title citations").with(nested),
		"document":        block("title context citations").with(object{"source": anthropicSource}),
		"image":           block("transformations").with(object{"source": anthropicSource}),
		"tool_reference":  block("").with(object{"tool_name": toolReference}),
		"tool_addition":   block("").with(object{"tool": anthropicAddition}), "tool_removal": block("tool"),

		"thinking": block("thinking signature").as(opaque), "redacted_thinking": block("data").as(opaque),
		"compaction": block("content encrypted_content signature tool_changes").as(compacted),
		"fallback":   block("from to trigger"),

		"server_tool_use": block("id name input caller"), "advisor_tool_result": ofAPI,
		"web_search_tool_result": ofAPI, "web_fetch_tool_result": ofAPI, "code_execution_tool_result": ofAPI,
		"bash_code_execution_tool_result": ofAPI, "text_editor_code_execution_tool_result": ofAPI,
		"tool_search_tool_result": ofAPI, "mcp_tool_use": block("id name input server_name"),
		"mcp_tool_result": ofAPI, "mcp_tool_listing": block("mcp_server_name tools"),
		"container_upload": {why: Reference},
	}
}

// billingHeader begins the block of Claude Code that has a hash of the call's body.
const billingHeader = `"x-anthropic-billing-header`

// anthropicText takes the text of a block. The hash in it is another one in each call.
func anthropicText(r *request, v value) {
	if at := bytes.Index(v, []byte("cch=")); at >= 0 && bytes.HasPrefix(v, []byte(billingHeader)) {
		end := at + bytes.IndexAny(v[at:], `; "\`)
		r.at.put(r.name, v[:at])
		r.at.put("", v[end:])
		r.at.varying = int64(end - at)
		r.at.most = sum(r.at.most, r.at.varying)
		return
	}
	text(r, v)
}

func anthropicSource(r *request, v value) {
	r.kind = memberText(v, "media_type")
	r.typed(anthropicSources, "", v)
}
