import {look, loop, prompt, streamed, system} from './loop.mjs'
import OpenAI from 'openai'

const client = new OpenAI()
const messages = [{role: 'system', content: system}, {role: 'user', content: prompt}]
await loop(async () => {
  const params = {
    model: 'gpt-5.1', messages,
    tools: [{type: 'function', function: {name: look.name, description: look.description, parameters: look.schema}}],
  }
  const said = streamed
    ? await client.chat.completions.stream({...params, stream_options: {include_usage: true}}).finalChatCompletion()
    : await client.chat.completions.create(params)
  const {role, content, tool_calls: calls} = said.choices[0].message
  if (!calls?.length) return content
  messages.push({role, content, tool_calls: calls.map(({id, type, function: {name, arguments: args}}) => (
    {id, type, function: {name, arguments: args}}))})
  for (const call of calls) {
    messages.push({role: 'tool', tool_call_id: call.id, content: look.run(JSON.parse(call.function.arguments))})
  }
})
