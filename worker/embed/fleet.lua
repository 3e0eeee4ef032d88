-- The scripts of FleetLimiter and FleetView. KEYS: asking, blocked, failures, probe, sharing,
-- quota, sizes.

-- name: ask
-- ARGV: project ('' only looks), request, seconds a project is active, failures to block, milliseconds of a probe,
-- process, seconds a process shares the rate.
-- Returns the milliseconds to wait (-1 while another request probes), active projects, reason, failures, processes,
-- whether the account has no quota, sizes.
local asking, blocked, failures, probe, sharing = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
if ARGV[1] ~= '' then
    redis.call('ZADD', asking, now, ARGV[1])
    redis.call('ZADD', sharing, now, ARGV[6])
end
redis.call('ZREMRANGEBYSCORE', sharing, '-inf', now - tonumber(ARGV[7]))
redis.call('EXPIRE', sharing, ARGV[7])
local processes = redis.call('ZCARD', sharing)
redis.call('ZREMRANGEBYSCORE', asking, '-inf', now - tonumber(ARGV[3]))
redis.call('EXPIRE', asking, ARGV[3])
local active = redis.call('ZCARD', asking)
local left = redis.call('PTTL', blocked)
local count = tonumber(redis.call('GET', failures) or '0')
local quota, sizes = redis.call('EXISTS', KEYS[6]), redis.call('GET', KEYS[7]) or ''
if left > 0 then return {left, active, redis.call('GET', blocked), count, processes, quota, sizes} end
if count >= tonumber(ARGV[4]) and redis.call('GET', probe) ~= ARGV[2]
    and not redis.call('SET', probe, ARGV[2], 'NX', 'PX', ARGV[5]) then
    return {-1, active, '', count, processes, quota, sizes}
end
return {0, active, '', count, processes, quota, sizes}

-- name: record_failure
-- ARGV: request, milliseconds that the provider asks to wait, failures to block, reason, seconds failures are kept,
-- the failures to count at least if the account has no quota (0: it has), then the seconds of the first block and of
-- those that follow it.
local blocked, failures, probe = KEYS[2], KEYS[3], KEYS[4]
local left = redis.call('PTTL', blocked)
local wait = tonumber(ARGV[2])
if redis.call('GET', probe) == ARGV[1] then redis.call('DEL', probe) end
if ARGV[6] ~= '0' then
    redis.call('SET', KEYS[6], 1, 'EX', ARGV[5])
    redis.call('SET', failures, math.max(tonumber(redis.call('GET', failures) or '0'), tonumber(ARGV[6])), 'EX', ARGV[5])
end
-- what fails while nobody may ask was begun before, and tells nothing new
if left <= 0 then
    local count = redis.call('INCR', failures)
    redis.call('EXPIRE', failures, ARGV[5])
    if wait == 0 and count >= tonumber(ARGV[3]) then
        wait = 1000 * tonumber(ARGV[7 + math.min(count - tonumber(ARGV[3]), #ARGV - 7)])
    end
end
if wait > left and wait > 0 then redis.call('SET', blocked, ARGV[4], 'PX', math.ceil(wait)) end

-- name: record_end
-- ARGV: request, whether the provider answered ('1').
if redis.call('GET', KEYS[4]) == ARGV[1] then redis.call('DEL', KEYS[4]) end
if ARGV[2] == '1' then redis.call('DEL', KEYS[3], KEYS[6]) end

-- name: look
-- ARGV: seconds a project is active. Returns the milliseconds of the block, reason, failures, active projects.
local time = redis.call('TIME')
local since = tonumber(time[1]) + tonumber(time[2]) / 1000000 - tonumber(ARGV[1])
local reason = redis.call('GET', KEYS[2]) or ''
local failures = redis.call('GET', KEYS[3]) or '0'
return {redis.call('PTTL', KEYS[2]), reason, failures, redis.call('ZCOUNT', KEYS[1], '(' .. since, '+inf')}
