// Chat templates with tools, for tests: each as a family of models has it.
#ifndef ROPEWAY_TOKENIZER_TEST_TEMPLATES_H_
#define ROPEWAY_TOKENIZER_TEST_TEMPLATES_H_

#include <array>

namespace ropeway::tokenizer {

// As Hermes' and Qwen's: calls and tools as JSON within tags.
inline constexpr const char* kHermesTools =
    "{%- if tools %}<|im_start|>system\n<tools>{% for tool in tools %}\n{{ tool | tojson }}"
    "{% endfor %}\n</tools><|im_end|>\n{% endif %}"
    "{%- for m in messages %}<|im_start|>{{ m.role if m.role != 'tool' else 'user' }}{{ '\n' }}"
    "{%- if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n{% endif %}"
    "{%- if m.role == 'tool' %}<tool_response>{{ m.content }}</tool_response>"
    "{%- else %}{{ m.content }}{% endif %}"
    "{%- for call in m.tool_calls or [] %}{% set f = call.function %}"
    "<tool_call>{\"name\": \"{{ f.name }}\", \"arguments\": "
    "{{ f.arguments if f.arguments is string else f.arguments | tojson }}}</tool_call>{% endfor %}"
    "<|im_end|>\n{% endfor %}"
    "{%- if add_generation_prompt %}<|im_start|>assistant{{ '\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n"
    "{% endif %}{%- if note is defined %}{{ note }}{% endif %}{% endif %}";

// As Llama 3's: a system message with the tools, one call alone, results as a role of their own.
inline constexpr const char* kLlama3Tools =
    "{{- bos_token }}{%- if tools is not none %}"
    "{{- '<|start_header_id|>system<|end_header_id|>\n\n' }}{%- for t in tools %}"
    "{{- t.function.description ~ t | tojson(indent=4) }}{{- '\n\n' }}{%- endfor %}"
    "{{- note if note is defined }}{{- '<|eot_id|>' }}{%- endif %}"
    "{%- for message in messages %}"
    "{%- if 'tool_calls' in message %}{%- if message.tool_calls|length != 1 %}"
    "{{- raise_exception('This model only supports single tool-calls at once!') }}{%- endif %}"
    "{%- set tool_call = message.tool_calls[0].function %}"
    "{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}"
    "{{- '{\"name\": \"' + tool_call.name + '\", ' }}{{- '\"parameters\": ' }}"
    "{{- tool_call.arguments | tojson }}{{- '}<|eot_id|>' }}"
    "{%- elif message.role == 'tool' %}"
    "{{- '<|start_header_id|>ipython<|end_header_id|>\n\n' }}{{- message.content | tojson }}"
    "{{- '<|eot_id|>' }}"
    "{%- else %}{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ "
    "message['content'] | trim + '<|eot_id|>' }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}"
    "{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}";

// As Mistral's: tools before the last user's message, ids of nine letters, thoughts as text.
inline constexpr const char* kMistralTools =
    "{{- bos_token }}{%- for message in messages %}{%- if message.role == 'user' %}"
    "{%- if tools is not none and loop.last or loop.index == 1 and tools %}"
    "{{- '[AVAILABLE_TOOLS] [' }}{%- for tool in tools %}{%- set tool = tool.function %}"
    "{{- '{\"type\": \"function\", \"function\": {' }}"
    "{%- for key, val in tool.items() if key != 'return' %}"
    "{%- if val is string %}{{- '\"' + key + '\": \"' + val + '\"' }}"
    "{%- else %}{{- '\"' + key + '\": ' + val|tojson }}{%- endif %}"
    "{%- if not loop.last %}{{- ', ' }}{%- endif %}{%- endfor %}{{- '}}' }}{%- endfor %}"
    "{{- '][/AVAILABLE_TOOLS]' }}{%- endif %}"
    "{{- '[INST] ' + message.content + (note if note is defined else '') + '[/INST]' }}"
    "{%- elif message.role == 'assistant' %}"
    "{%- if message.tool_calls is defined and message.tool_calls is not none %}"
    "{{- '[TOOL_CALLS] [' }}{%- for tool_call in message.tool_calls %}"
    "{%- if tool_call.id is not defined or tool_call.id|length < 9 %}"
    "{{- raise_exception('Tool call IDs should be alphanumeric strings with length 9!') }}"
    "{%- endif %}{%- set out = tool_call.function|tojson %}{{- out[:-1] }}"
    "{{- ', \"id\": \"' + tool_call.id + '\"}' }}{%- endfor %}{{- ']' + eos_token }}"
    "{%- else %}{{- message.reasoning_content if message.reasoning_content is defined }}"
    "{{- ' ' + message.content + eos_token }}{%- endif %}"
    "{%- elif message.role == 'tool' %}"
    "{{- '[TOOL_RESULTS] {\"content\": ' + message.content|string + ', \"call_id\": \"' + "
    "message.tool_call_id + '\"}[/TOOL_RESULTS]' }}{%- endif %}{%- endfor %}";

// As DeepSeek R1's: arguments as text, calls only where there is no content, no tools.
inline constexpr const char* kDeepSeekTools =
    "{{- bos_token }}{%- for message in messages %}{%- if message.role == 'user' %}"
    "{{- '<|user|>' + message.content }}{%- endif %}"
    "{%- if message.role == 'assistant' and message.content is none %}"
    "{%- for tool in message.tool_calls %}{{- '<|call|>' + tool.type + '<|sep|>' + "
    "tool.function.name + '\n```json\n' + tool.function.arguments + '\n```<|end|>' }}"
    "{%- endfor %}{%- endif %}"
    "{%- if message.role == 'assistant' and message.content is not none %}"
    "{%- set content = message.content %}{%- if '</think>' in content %}"
    "{%- set content = content.split('</think>')[-1] %}{%- endif %}"
    "{{- '<|assistant|>' + content + eos_token }}{%- endif %}"
    "{%- if message.role == 'tool' %}{{- '<|output|>' + message.content + '<|end|>' }}{%- endif %}"
    "{%- endfor %}{%- if add_generation_prompt %}{{- '<|assistant|><think>\n' }}"
    "{{- note if note is defined }}{%- endif %}";

inline constexpr std::array<const char*, 4> kToolTemplates = {kHermesTools, kLlama3Tools,
                                                              kMistralTools, kDeepSeekTools};

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_TEST_TEMPLATES_H_
