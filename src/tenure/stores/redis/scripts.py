"""What is done inside Redis: one script for each operation, so that each is one step of the server.

Keys, all of which begin with the prefix: ``id`` (the name of this store), ``token`` (the counter: no expiry, never deleted),
``elections`` (their names), for each election ``office:NAME`` (a hash that expires with the lease) and ``standby:NAME``, and for each
document ``document:NAME``.

Rules of this file
1. Every script compares the name of the store first. Where it is missing, data were lost, and it is put back: a store that
   made up a new name would have new fences, which know of no older token. Where it is another one, nothing is done.
2. Numbers of tokens stay texts: a number of Lua is exact up to 2⁵³ only.
3. An office is compared by holder, serial and token together, or not at all.
4. A script that serves many elections reads a key of the wrong type as if there were none: one that somebody wrote over by hand
   must not stop the others. Every other no of the server (rights, memory) is one for all.
5. What may fail comes before what gives an office: Redis takes nothing back.
"""

from math import inf
from typing import Final

from tenure.clients.redis.client import Script
from tenure.clients.redis.resp import Reply
from tenure.stores.redis.records import TOKEN_BELIEVED_MAX

ASKED: Final = 2  # what RENEW answers for a tenure that lasts and was asked to resign
_NO_EXPIRY: Final = -1  # what Redis says of a key that was made by hand, and that nothing will ever end


def left_s(ms: Reply) -> float:
    """Return in how many seconds an office ends that LOOK told of; 0: it has ended."""
    if not isinstance(ms, int) or ms == _NO_EXPIRY:
        return inf
    return max(ms / 1000, 0.0)


_HEAD: Final = """
local id = redis.call('GET', KEYS[1])
if not id then
  redis.call('SET', KEYS[1], ARGV[1])
elseif id ~= ARGV[1] then
  return redis.error_reply('OTHERSTORE ' .. id)
end
"""
_LESS: Final = """
local function less(a, b)
  return #a < #b or (#a == #b and a < b)
end
"""
_FOUND: Final = """
local function found(...)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err then
    return string.find(answer.err, 'WRONGTYPE', 1, true) and {} or redis.call(...)
  end
  return answer
end
"""
_COUNTER: Final = f"""
local function raised(key, least)
  local last = redis.call('GET', key) or '0'
  if not string.match(last, '^%d+$') or not less(last, '{TOKEN_BELIEVED_MAX}') then
    return nil
  end
  if less(last, least) then
    redis.call('SET', key, least)
    return least
  end
  return last
end
"""

# KEYS: id. Answers the name that the store has, which is ours if it had none.
NAME: Final = Script("""
redis.call('SET', KEYS[1], ARGV[1], 'NX')
return redis.call('GET', KEYS[1])
""")

# KEYS: id, office, standby, token, elections. ARGV: identity, holder, serial, ttl_ms, advertise, fresh_ms, election, least.
# Answers {1, token} or {0, holder, serial, token, advertise}.
CLAIM: Final = Script(f"""{_HEAD}{_LESS}{_COUNTER}
local held = redis.call('HMGET', KEYS[2], 'holder', 'serial', 'token', 'advertise')
local stands = ARGV[2] .. ' ' .. ARGV[3]
if held[1] then
  if held[1] ~= ARGV[2] or less(ARGV[3], held[2] or '') then
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    if held[1] ~= ARGV[2] then
      redis.call('ZADD', KEYS[3], now + ARGV[6], stands)
      redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now)
      redis.call('PEXPIRE', KEYS[3], ARGV[6])
    end
    return {{0, held[1], held[2], held[3], held[4]}}
  end
  if held[2] == ARGV[3] then
    redis.call('PEXPIRE', KEYS[2], ARGV[4])
    return {{1, held[3]}}
  end
end
if not raised(KEYS[4], ARGV[8]) then
  return redis.error_reply('ERR the counter ' .. KEYS[4] .. ' is no number, or too large: mend it')
end
redis.call('SADD', KEYS[5], ARGV[7])
redis.call('ZREM', KEYS[3], stands)
redis.call('INCR', KEYS[4])
local token = redis.call('GET', KEYS[4])
local time = redis.call('TIME')
redis.call('DEL', KEYS[2])
redis.call('HSET', KEYS[2], 'holder', ARGV[2], 'serial', ARGV[3], 'token', token, 'advertise', ARGV[5],
  'since', time[1] .. string.format('%06d', time[2]))
redis.call('PEXPIRE', KEYS[2], ARGV[4])
return {{1, token}}
""")

# As CLAIM, on one of several servers, none of which knows the token yet. Answers {1, counter, token or ''} or as CLAIM does.
VOTE: Final = Script(f"""{_HEAD}{_LESS}{_COUNTER}
local held = redis.call('HMGET', KEYS[2], 'holder', 'serial', 'token', 'advertise')
if held[1] and (held[1] ~= ARGV[2] or less(ARGV[3], held[2] or '')) then
  if held[1] ~= ARGV[2] then
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    redis.call('ZADD', KEYS[3], now + ARGV[6], ARGV[2] .. ' ' .. ARGV[3])
    redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now)
    redis.call('PEXPIRE', KEYS[3], ARGV[6])
  end
  return {{0, held[1], held[2], held[3], held[4]}}
end
local last = raised(KEYS[4], ARGV[8])
if not last then
  return redis.error_reply('ERR the counter ' .. KEYS[4] .. ' is no number, or too large: mend it')
end
redis.call('SADD', KEYS[5], ARGV[7])
redis.call('ZREM', KEYS[3], ARGV[2] .. ' ' .. ARGV[3])
if held[2] ~= ARGV[3] then
  local time = redis.call('TIME')
  redis.call('DEL', KEYS[2])
  redis.call('HSET', KEYS[2], 'holder', ARGV[2], 'serial', ARGV[3], 'token', '', 'advertise', ARGV[5],
    'since', time[1] .. string.format('%06d', time[2]))
  held[3] = ''
end
redis.call('PEXPIRE', KEYS[2], ARGV[4])
return {{1, last, held[3]}}
""")

# KEYS: id, office, token. ARGV: identity, holder, serial, token. Answers 1 if the vote still stands, and now has that token.
SETTLE: Final = Script(f"""{_HEAD}{_LESS}{_COUNTER}
local held = redis.call('HMGET', KEYS[2], 'holder', 'serial')
if held[1] ~= ARGV[2] or held[2] ~= ARGV[3] or not raised(KEYS[3], ARGV[4]) then
  return 0
end
redis.call('HSET', KEYS[2], 'token', ARGV[4])
return 1
""")

# KEYS: id, offices. ARGV: identity, and for each office holder, serial, token, ttl_ms. Answers 0 (ended), 1 (renewed) or 2
# (renewed, and asked to resign) for each.
RENEW: Final = Script(f"""{_HEAD}{_FOUND}
local answers = {{}}
for number = 2, #KEYS do
  local at = (number - 2) * 4 + 2
  local held = found('HMGET', KEYS[number], 'holder', 'serial', 'token', 'resign')
  local answer = 0
  if held[1] == ARGV[at] and held[2] == ARGV[at + 1] and held[3] == ARGV[at + 2] then
    redis.call('PEXPIRE', KEYS[number], ARGV[at + 3])
    answer = held[4] and 2 or 1
  end
  answers[number - 1] = answer
end
return answers
""")

# KEYS: id, office, standby. ARGV: identity, holder, serial, channel, election. Answers 1 if it was in office.
RELEASE: Final = Script(f"""{_HEAD}{_FOUND}
found('ZREM', KEYS[3], ARGV[2] .. ' ' .. ARGV[3])  -- which must not keep anybody in office
local held = redis.call('HMGET', KEYS[2], 'holder', 'serial')
if held[1] ~= ARGV[2] or held[2] ~= ARGV[3] then
  return 0
end
redis.call('DEL', KEYS[2])
redis.call('PUBLISH', ARGV[4], ARGV[5])
return 1
""")

# KEYS: id, office. ARGV: identity, holder, serial, token, advertise. Answers 1 if that tenure lasts.
PROCLAIM: Final = Script(f"""{_HEAD}
local held = redis.call('HMGET', KEYS[2], 'holder', 'serial', 'token')
if held[1] ~= ARGV[2] or held[2] ~= ARGV[3] or held[3] ~= ARGV[4] then
  return 0
end
redis.call('HSET', KEYS[2], 'advertise', ARGV[5])
return 1
""")

# KEYS: id, office. ARGV: identity, and 1 to leave a word. Answers {} or {holder, serial, token, advertise}.
READ: Final = Script(f"""{_HEAD}
local held = redis.call('HMGET', KEYS[2], 'holder', 'serial', 'token', 'advertise')
if not held[1] then
  return {{}}
end
if ARGV[2] == '1' then
  redis.call('HSET', KEYS[2], 'resign', '1')
end
return held
""")

# KEYS: id, offices. Answers for each who holds it, or '', and for how many milliseconds more; nil and 0 for what is no office,
# so that who waits for it claims, and is told.
LOOK: Final = Script(f"""{_HEAD}{_FOUND}
local answers = {{}}
for number = 2, #KEYS do
  local held = found('HMGET', KEYS[number], 'holder', 'serial')
  local is_office = #held > 0
  answers[#answers + 1] = is_office and (held[1] and held[1] .. ' ' .. (held[2] or '') or '')
  answers[#answers + 1] = is_office and redis.call('PTTL', KEYS[number]) or 0
end
return answers
""")

# KEYS: id, elections. ARGV: identity, what the keys of offices and of standbys begin with. Answers the time, and for each
# election its name, its office as READ has it with since and resign behind it, its milliseconds, and who stands by. Where a key
# is of the wrong type nobody leads and nobody stands by: no claim is granted there until it is deleted, and each is told so.
LIST: Final = Script(f"""{_HEAD}{_FOUND}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local answers = {{time[1] .. string.format('%06d', time[2])}}
for _, name in ipairs(redis.call('SMEMBERS', KEYS[2])) do
  local office = ARGV[2] .. name
  answers[#answers + 1] = {{
    name,
    found('HMGET', office, 'holder', 'serial', 'token', 'advertise', 'since', 'resign'),
    redis.call('PTTL', office),
    found('ZRANGEBYSCORE', ARGV[3] .. name, now, '+inf'),
  }}
end
return answers
""")

# KEYS: id, document. ARGV: identity. Answers {value, version} or nothing.
FETCH: Final = Script(f"""{_HEAD}
return redis.call('HMGET', KEYS[2], 'value', 'version')
""")

# KEYS: id, document. ARGV: identity, value, new version, version that must be there ('': nothing must). Answers 1, or as FETCH.
SWAP: Final = Script(f"""{_HEAD}
local found = redis.call('HMGET', KEYS[2], 'value', 'version')
if (found[2] or '') ~= ARGV[4] then
  return found
end
redis.call('HSET', KEYS[2], 'value', ARGV[2], 'version', ARGV[3])
return 1
""")
