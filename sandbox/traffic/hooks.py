"""What a traced twin calls to record its accesses, as LLVM text."""

_CHUNK = 64  # bytes: in such pieces memcpy and memset are recorded
_STORE = -1 << 63


def hooks(cursor: int, buffer: int, flush: int, capacity: int) -> str:
    """Functions that write records of 64 bits to a buffer; the arguments are addresses.

    `room` makes way for n records, or calls `flush()` first where `capacity` is reached: it reads
    the records up to `cursor` and sets it to 0. `lane` makes a record if its bit is set; `copy`
    and `set` stand before a memcpy and a memset.
    """
    return f"""
define internal ptr @trace.room(i64 %n) noinline {{
entry:
  %at = load i64, ptr inttoptr (i64 {cursor} to ptr)
  %end = add i64 %at, %n
  %full = icmp ugt i64 %end, {capacity}
  br i1 %full, label %flush, label %done
flush:
  call void inttoptr (i64 {flush} to ptr)()
  br label %done
done:
  %start = phi i64 [ %at, %entry ], [ 0, %flush ]
  %next = add i64 %start, %n
  store i64 %next, ptr inttoptr (i64 {cursor} to ptr)
  %p = getelementptr i64, ptr inttoptr (i64 {buffer} to ptr), i64 %start
  ret ptr %p
}}
define internal void @trace.lane(ptr %p, i64 %meta, i1 %on) noinline {{
  br i1 %on, label %record, label %done
record:
  %room = call ptr @trace.room(i64 1)
  %address = ptrtoint ptr %p to i64
  %r = or i64 %address, %meta
  store i64 %r, ptr %room
  br label %done
done:
  ret void
}}
define internal void @trace.chunk(ptr %p, i64 %at, i64 %n, i64 %store) noinline {{
  %left = sub i64 %n, %at
  %short = icmp ult i64 %left, {_CHUNK}
  %size = select i1 %short, i64 %left, i64 {_CHUNK}
  %high = shl i64 %size, 48
  %meta = or i64 %high, %store
  %q = getelementptr i8, ptr %p, i64 %at
  call void @trace.lane(ptr %q, i64 %meta, i1 true)
  ret void
}}
define internal void @trace.copy(ptr %to, ptr %from, i64 %n) noinline {{
entry:
  br label %test
test:
  %at = phi i64 [ 0, %entry ], [ %next, %loop ]
  %more = icmp ult i64 %at, %n
  br i1 %more, label %loop, label %done
loop:
  call void @trace.chunk(ptr %from, i64 %at, i64 %n, i64 0)
  call void @trace.chunk(ptr %to, i64 %at, i64 %n, i64 {_STORE})
  %next = add i64 %at, {_CHUNK}
  br label %test
done:
  ret void
}}
define internal void @trace.set(ptr %to, i64 %n) noinline {{
entry:
  br label %test
test:
  %at = phi i64 [ 0, %entry ], [ %next, %loop ]
  %more = icmp ult i64 %at, %n
  br i1 %more, label %loop, label %done
loop:
  call void @trace.chunk(ptr %to, i64 %at, i64 %n, i64 {_STORE})
  %next = add i64 %at, {_CHUNK}
  br label %test
done:
  ret void
}}
"""
