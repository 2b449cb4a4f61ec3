(* The programs of kinds.rly in OCaml.  kinds NAME N  prints the result and the least time in ms. *)
type colour = Red | Black
type tree = Leaf | Node of colour * tree * int * tree
type stream = More of int * (unit -> stream)
type body = { x : int; y : int; u : int; v : int }
let balance c l k r = match c, l, r with
  | Black, Node (Red, Node (Red, a, x, b), y, d), e -> Node (Red, Node (Black, a, x, b), y, Node (Black, d, k, e))
  | Black, Node (Red, a, x, Node (Red, b, y, d)), e -> Node (Red, Node (Black, a, x, b), y, Node (Black, d, k, e))
  | Black, a, Node (Red, Node (Red, b, y, d), z, e) -> Node (Red, Node (Black, a, k, b), y, Node (Black, d, z, e))
  | Black, a, Node (Red, b, y, Node (Red, d, z, e)) -> Node (Red, Node (Black, a, k, b), y, Node (Black, d, z, e))
  | _ -> Node (c, l, k, r)
let rec ins t (k : int) = match t with
  | Leaf -> Node (Red, Leaf, k, Leaf)
  | Node (c, l, x, r) -> if k < x then balance c (ins l k) x r else if x < k then balance c l x (ins r k) else t
let insert t k = match ins t k with Node (_, l, x, r) -> Node (Black, l, x, r) | Leaf -> Leaf
let m = 1000003
let rec fill i seed t = if i = 0 then t else let s = (seed * 1103 + 12345) mod m in fill (i - 1) s (insert t s)
let rec total t = match t with Leaf -> 0 | Node (_, l, x, r) -> (total l + x + total r) mod m
let trees n = total (fill n 42 Leaf)
let rec zip a b acc = match a, b with x :: r, y :: s -> zip r s ((x, y) :: acc) | _ -> acc
let rec count i n acc = if i = n then acc else count (i + 1) n (i :: acc)
let rec dots l acc = match l with (x, y) :: r -> dots r ((acc + x mod 1000 * (y mod 1000)) mod m) | [] -> acc
let pairs n = dots (zip (count 0 n []) (count 5 (n + 5) []) []) 0
let rec from k = More (k, fun () -> from (k + 3))
let rec take s n acc = if n = 0 then acc else match s with More (x, f) -> take (f ()) (n - 1) ((acc * 31 + x) mod m)
let streams n = take (from 1) n 0
let rec female n = if n = 0 then 1 else n - male (female (n - 1))
and male n = if n = 0 then 0 else n - female (male (n - 1))
let step b = { x = (b.x + b.u) mod 10007; y = (b.y + b.v) mod 10007; u = (b.u + b.y) mod 101; v = (b.v + b.x) mod 103 }
let rec steps n b = if n = 0 then b.x + b.y + b.u + b.v else steps (n - 1) (step b)
let records n = steps n { x = 1; y = 2; u = 3; v = 4 }
let () =
  let n = int_of_string Sys.argv.(2) in
  let f = match Sys.argv.(1) with "trees" -> trees | "pairs" -> pairs | "streams" -> streams | "mutual" -> female | _ -> records in
  let best = ref infinity and r = ref 0 in
  for _ = 1 to 15 do let t = Unix.gettimeofday () in r := f n; best := min !best (Unix.gettimeofday () -. t) done;
  Printf.printf "%d %.4f\n" !r (!best *. 1e3)
